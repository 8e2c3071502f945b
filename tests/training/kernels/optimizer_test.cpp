// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/optimizer.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "training/kernels/support.h"

namespace lockstep::kernels {
namespace {

// Copies trivially copyable entries to the GPU as bytes.
template <typename Entry>
torch::Tensor upload(const std::vector<Entry>& entries) {
  const auto bytes = static_cast<int64_t>(entries.size() * sizeof(Entry));
  const torch::Tensor host = torch::empty({bytes}, torch::kUInt8);
  std::memcpy(host.data_ptr(), entries.data(), static_cast<size_t>(bytes));
  return host.to(torch::kCUDA);
}

struct Model {
  std::vector<torch::Tensor> parameters;
  std::vector<torch::Tensor> gradients;
  std::vector<torch::Tensor> first;
  std::vector<torch::Tensor> second;
  std::vector<torch::Tensor> copies;
  torch::Tensor table;
  int count = 0;
  int64_t elements = 0;
};

// Sizes around a group of four and around a block, a tensor that spans several blocks, and an empty
// one. Every fourth tensor is misaligned by four bytes.
Model make_model(bool with_first = true, bool with_second = true) {
  const std::vector<int64_t> sizes = {
      1, 3, 4, 5, 8191, 0, 8192, 8193, 2, 100003, 4096, 7777, 12288, 65536, 1, 262144, 6, 9, 1000};
  Model model;
  std::vector<UpdatedTensor> table;
  const auto take = [&](size_t i, int64_t size, const torch::Tensor& from) {
    const int64_t skipped = i % 4 == 3 ? 1 : 0;
    torch::Tensor whole = torch::empty({size + skipped}, from.options());
    torch::Tensor part = whole.narrow(0, skipped, size);
    part.copy_(from);
    return part;
  };
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t size = sizes[i];
    const torch::Tensor nothing = torch::zeros({size}, on_gpu(torch::kFloat32));
    model.parameters.push_back(take(i, size, random_floats({size})));
    model.gradients.push_back(take(i, size, random_floats({size})));
    model.first.push_back(with_first ? take(i, size, nothing) : torch::Tensor());
    model.second.push_back(with_second ? take(i, size, nothing) : torch::Tensor());
    // Some tensors have no copy.
    model.copies.push_back(i % 5 == 2 ? torch::Tensor() : poison({size}, torch::kBFloat16));
    table.push_back({.parameter = floats(model.parameters[i]),
                     .gradient = floats(model.gradients[i]),
                     .first = floats(model.first[i]),
                     .second = floats(model.second[i]),
                     .copy = bf16(model.copies[i]),
                     .count = size,
                     .begin = model.elements,
                     .group = static_cast<int>(i % 2)});
    model.elements += size;
  }
  model.table = upload(table);
  model.count = static_cast<int>(sizes.size());
  return model;
}

const UpdatedTensor* table_of(const Model& model) {
  return reinterpret_cast<const UpdatedTensor*>(model.table.data_ptr());
}

const Rates* rates_of(const torch::Tensor& rates) {
  return reinterpret_cast<const Rates*>(rates.data_ptr());
}

double expected_squares(const Model& model, const std::vector<Rates>& rates) {
  double sum = 0;
  for (size_t i = 0; i < model.gradients.size(); ++i) {
    const double scale = rates[i % 2].gradient_scale;
    sum += scale * scale * model.gradients[i].to(torch::kFloat64).square().sum().item<double>();
  }
  return sum;
}

torch::Tensor squares_of(const Model& model, const torch::Tensor& rates) {
  const torch::Tensor sum = poison({1}, torch::kFloat64);
  const torch::Tensor workspace = workspace_of(square_sum_workspace());
  square_sum(sum.data_ptr<double>(),
             table_of(model),
             model.count,
             model.elements,
             rates_of(rates),
             workspace.data_ptr(),
             stream());
  return sum;
}

TEST(SquareSum, IsThatOfAllGradients) {
  LOCKSTEP_NEEDS_GPU();
  const Model model = make_model();
  const std::vector<Rates> rates = {{.gradient_scale = 0.5F}, {.gradient_scale = 2}};
  const torch::Tensor on_device = upload(rates);
  const torch::Tensor sum = squares_of(model, on_device);
  const double expected = expected_squares(model, rates);
  EXPECT_NEAR(sum.item<double>(), expected, expected * 1e-12);
  EXPECT_TRUE(torch::equal(sum, squares_of(model, on_device)));
}

// Returns float64 copies of the tensors, for the optimizers of torch.
std::vector<torch::Tensor> widened(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> wide;
  for (const torch::Tensor& tensor : tensors) {
    wide.push_back(tensor.to(torch::kFloat64).clone());
  }
  return wide;
}

std::vector<torch::Tensor> every_second(const std::vector<torch::Tensor>& all, size_t from) {
  std::vector<torch::Tensor> some;
  for (size_t i = from; i < all.size(); i += 2) {
    some.push_back(all[i]);
  }
  return some;
}

void give_gradients(std::vector<torch::Tensor>& parameters,
                    const Model& model,
                    const std::vector<Rates>& rates,
                    double factor) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const double scale = rates[i % 2].gradient_scale;
    parameters[i].mutable_grad() = model.gradients[i].to(torch::kFloat64) * (scale * factor);
  }
}

// Parameters have magnitude 1: float32 rounds them by 6e-8 in each step, and a step with lr 1e-2
// has a relative error of about 1e-5.
void expect_parameters(const Model& model, const std::vector<torch::Tensor>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE("tensor " + std::to_string(i));
    expect_close(model.parameters[i], expected[i].detach(), 1e-6, 1e-6);
    if (model.copies[i].defined()) {
      EXPECT_TRUE(torch::equal(model.copies[i], model.parameters[i].to(torch::kBFloat16)));
    }
  }
}

template <typename Options>
torch::optim::OptimizerParamGroup group_of(std::vector<torch::Tensor> parameters,
                                           const Options& options) {
  return {std::move(parameters), std::make_unique<Options>(options)};
}

constexpr double kBeta1 = 0.875;  // exact in float32, as is 1 - kBeta1
constexpr double kBeta2 = 0.96875;
// Large enough to limit the update if weight decay nearly cancels the gradient.
constexpr double kEpsilon = 1e-6;

Rates adam_rates(double lr, double decay, double scale, int step) {
  return {.lr = static_cast<float>(lr),
          .beta1 = static_cast<float>(kBeta1),
          .beta2 = static_cast<float>(kBeta2),
          .epsilon = static_cast<float>(kEpsilon),
          .weight_decay = static_cast<float>(decay),
          .correction1 = static_cast<float>(1 - std::pow(kBeta1, step)),
          .correction2 = static_cast<float>(1 - std::pow(kBeta2, step)),
          .gradient_scale = static_cast<float>(scale)};
}

template <typename Options>
Options adam_options(double lr, double decay) {
  Options options(lr);
  options.betas(std::make_tuple(kBeta1, kBeta2)).eps(kEpsilon).weight_decay(decay);
  return options;
}

template <typename Optimizer, typename Options>
void expect_adam(bool decay_in_gradient, float maximum) {
  Model model = make_model();
  std::vector<torch::Tensor> parameters = widened(model.parameters);
  Optimizer optimizer(
      std::vector<torch::optim::OptimizerParamGroup>{
          group_of(every_second(parameters, 0), adam_options<Options>(1e-2, 0.1)),
          group_of(every_second(parameters, 1), adam_options<Options>(3e-3, 0))},
      adam_options<Options>(1e-2, 0));
  for (int step = 1; step <= 3; ++step) {
    for (const torch::Tensor& gradient : model.gradients) {
      gradient.normal_();
    }
    const std::vector<Rates> rates = {adam_rates(1e-2, 0.1, 0.5, step),
                                      adam_rates(3e-3, 0, 2, step)};
    const torch::Tensor on_device = upload(rates);
    const double norm = std::sqrt(expected_squares(model, rates));
    const double factor = maximum > 0 ? std::min(1.0, maximum / (norm + 1e-6)) : 1;
    give_gradients(parameters, model, rates, factor);
    optimizer.step();

    const torch::Tensor squares = squares_of(model, on_device);
    adamw_step(table_of(model),
               model.count,
               model.elements,
               rates_of(on_device),
               {.squares = maximum > 0 ? squares.data_ptr<double>() : nullptr, .max_norm = maximum},
               decay_in_gradient,
               stream());
    expect_parameters(model, parameters);
  }
}

TEST(AdamwStep, AgreesWithTorch) {
  LOCKSTEP_NEEDS_GPU();
  for (const float maximum : {0.0F, 1.0F, 1e6F}) {
    SCOPED_TRACE(maximum);
    expect_adam<torch::optim::AdamW, torch::optim::AdamWOptions>(false, maximum);
  }
}

TEST(AdamwStep, WithDecayInTheGradientIsAdam) {
  LOCKSTEP_NEEDS_GPU();
  for (const float maximum : {0.0F, 1.0F}) {
    SCOPED_TRACE(maximum);
    expect_adam<torch::optim::Adam, torch::optim::AdamOptions>(true, maximum);
  }
}

TEST(AdamwStep, IsLeftOutWhereAGradientIsNotFinite) {
  LOCKSTEP_NEEDS_GPU();
  for (const double value :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Model model = make_model();
    model.gradients[9].narrow(0, 5000, 1).fill_(value);
    const std::vector<torch::Tensor> before = widened(model.parameters);
    const torch::Tensor rates =
        upload(std::vector<Rates>{adam_rates(1e-2, 0.1, 1, 1), adam_rates(1e-2, 0.1, 1, 1)});
    const torch::Tensor squares = squares_of(model, rates);
    EXPECT_FALSE(std::isfinite(squares.item<double>()));
    adamw_step(table_of(model),
               model.count,
               model.elements,
               rates_of(rates),
               {.squares = squares.data_ptr<double>(), .max_norm = 1, .skip_if_not_finite = true},
               false,
               stream());
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(torch::equal(model.parameters[i].to(torch::kFloat64), before[i]));
      EXPECT_EQ(model.first[i].count_nonzero().item<int64_t>(), 0);
      EXPECT_EQ(model.second[i].count_nonzero().item<int64_t>(), 0);
    }
  }
}

struct SgdCase {
  double momentum;
  double dampening;
  double decay;
  bool nesterov;
};

TEST(SgdStep, AgreesWithTorch) {
  LOCKSTEP_NEEDS_GPU();
  for (const SgdCase& that : {SgdCase{0, 0, 0, false},
                              SgdCase{0, 0, 0.1, false},
                              SgdCase{0.875, 0, 0.1, false},
                              SgdCase{0.875, 0.25, 0.1, false},
                              SgdCase{0.875, 0, 0.1, true}}) {
    SCOPED_TRACE("momentum " + std::to_string(that.momentum) + ", dampening " +
                 std::to_string(that.dampening) + ", nesterov " + std::to_string(that.nesterov));
    Model model = make_model(that.momentum != 0, false);
    std::vector<torch::Tensor> parameters = widened(model.parameters);
    const auto options = torch::optim::SGDOptions(1e-2)
                             .momentum(that.momentum)
                             .dampening(that.dampening)
                             .weight_decay(that.decay)
                             .nesterov(that.nesterov);
    torch::optim::SGD optimizer(parameters, options);
    for (int step = 1; step <= 3; ++step) {
      for (const torch::Tensor& gradient : model.gradients) {
        gradient.normal_();
      }
      const Rates one = {.lr = 1e-2F,
                         .beta1 = static_cast<float>(that.momentum),
                         .beta2 = static_cast<float>(that.dampening),
                         .weight_decay = static_cast<float>(that.decay),
                         .correction1 = step == 1 ? 0.0F : 1.0F,
                         .gradient_scale = 0.5F};
      const std::vector<Rates> rates = {one, one};
      const torch::Tensor on_device = upload(rates);
      const double norm = std::sqrt(expected_squares(model, rates));
      give_gradients(parameters, model, rates, std::min(1.0, 100 / (norm + 1e-6)));
      optimizer.step();
      const torch::Tensor squares = squares_of(model, on_device);
      sgd_step(table_of(model),
               model.count,
               model.elements,
               rates_of(on_device),
               {.squares = squares.data_ptr<double>(), .max_norm = 100},
               that.nesterov,
               stream());
      expect_parameters(model, parameters);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
