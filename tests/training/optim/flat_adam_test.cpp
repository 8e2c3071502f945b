// SPDX-License-Identifier: Apache-2.0
#include "training/optim/flat_adam.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "lockstep/optimizer.h"
#include "training/optim/vector_adam.h"

namespace lockstep::optim {
namespace {

constexpr int64_t kCount = 5003;  // not a multiple of a vector or a block
constexpr int kSteps = 100;

FlatAdamOptions some_options(bool decoupled) {
  return {
      .lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1, .decoupled_decay = decoupled};
}

struct Trained {
  torch::Tensor parameter = torch::randn({kCount});
  torch::Tensor exp_avg = torch::zeros({kCount});
  torch::Tensor exp_avg_sq = torch::zeros({kCount});

  template <typename T = float>
  FlatAdamBuffers<T> buffers(const torch::Tensor& gradient,
                             int64_t begin = 0,
                             int64_t end = kCount) {
    return {.parameter = parameter.data_ptr<float>() + begin,
            .gradient = gradient.data_ptr<T>() + begin,
            .exp_avg = exp_avg.data_ptr<float>() + begin,
            .exp_avg_sq = exp_avg_sq.data_ptr<float>() + begin,
            .count = end - begin};
  }
};

torch::Tensor gradient_of(int step) {
  torch::manual_seed(static_cast<uint64_t>(step) + 100);
  return torch::randn({kCount});
}

torch::Tensor start() {
  torch::manual_seed(1);
  return torch::randn({kCount});
}

torch::Tensor train_flat(bool decoupled) {
  Trained mine;
  mine.parameter = start();
  for (int step = 1; step <= kSteps; ++step) {
    flat_adam(mine.buffers(gradient_of(step)), step, some_options(decoupled));
  }
  return mine.parameter;
}

// The same step with libtorch.
template <typename Optimizer, typename Options>
torch::Tensor train_torch(torch::ScalarType type) {
  torch::Tensor parameter = start().to(type).requires_grad_();
  const FlatAdamOptions o = some_options(true);
  Optimizer optimizer(
      std::vector<torch::Tensor>{parameter},
      Options(o.lr).betas(std::make_tuple(o.beta1, o.beta2)).weight_decay(o.weight_decay));
  for (int step = 1; step <= kSteps; ++step) {
    parameter.mutable_grad() = gradient_of(step).to(type);
    optimizer.step();
  }
  return parameter.detach();
}

// The largest difference in units of the largest value.
double drift(const torch::Tensor& one, const torch::Tensor& other) {
  return ((one - other).abs().max() / other.abs().max()).item<double>();
}

template <typename Optimizer, typename Options>
void expect_like(bool decoupled) {
  const torch::Tensor mine = train_flat(decoupled);
  const torch::Tensor theirs = train_torch<Optimizer, Options>(torch::kFloat32);
  const torch::Tensor exact = train_torch<Optimizer, Options>(torch::kFloat64);
  EXPECT_LT(drift(mine, theirs), 1e-6);
  // About a hundred roundings of a float: as far from the exact result as libtorch is.
  EXPECT_LT(drift(mine, exact), 1.5 * drift(theirs, exact));
  EXPECT_LT(drift(mine, exact), 3e-6);
}

TEST(FlatAdam, IsLibtorchsAdamAndAdamW) {
  expect_like<torch::optim::AdamW, torch::optim::AdamWOptions>(true);
  expect_like<torch::optim::Adam, torch::optim::AdamOptions>(false);
}

TEST(FlatAdam, GivesTheSameBitsHoweverItIsCut) {
  torch::manual_seed(1);
  Trained whole;
  const torch::Tensor begun = whole.parameter.clone();
  for (int step = 1; step <= 10; ++step) {
    flat_adam(whole.buffers(gradient_of(step)), step, some_options(true));
  }
  for (const int64_t piece : {1, 3, 7, 64, 1000, 1025}) {
    SCOPED_TRACE(piece);
    Trained cut;
    cut.parameter = begun.clone();
    for (int step = 1; step <= 10; ++step) {
      const torch::Tensor gradient = gradient_of(step);
      for (int64_t begin = 0; begin < kCount; begin += piece) {
        const int64_t end = std::min(kCount, begin + piece);
        flat_adam(cut.buffers(gradient, begin, end), step, some_options(true));
      }
    }
    EXPECT_TRUE(cut.parameter.equal(whole.parameter));
    EXPECT_TRUE(cut.exp_avg.equal(whole.exp_avg));
    EXPECT_TRUE(cut.exp_avg_sq.equal(whole.exp_avg_sq));
  }
}

TEST(FlatAdam, GivesTheSameBitsWithAnyNumberOfThreads) {
  constexpr int64_t kMany = 300'001;
  torch::manual_seed(1);
  const torch::Tensor begun = torch::randn({kMany});
  const torch::Tensor gradient = torch::randn({kMany});
  std::vector<torch::Tensor> results;
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    torch::Tensor parameter = begun.clone();
    const torch::Tensor m = torch::zeros({kMany});
    const torch::Tensor v = torch::zeros({kMany});
    flat_adam(FlatAdamBuffers<float>{.parameter = parameter.data_ptr<float>(),
                                     .gradient = gradient.data_ptr<float>(),
                                     .exp_avg = m.data_ptr<float>(),
                                     .exp_avg_sq = v.data_ptr<float>(),
                                     .count = kMany},
              1,
              {});
    results.push_back(parameter);
  }
  at::set_num_threads(before);
  EXPECT_TRUE(results[1].equal(results[0]));
  EXPECT_TRUE(results[2].equal(results[0]));
}

template <typename T>
void expect_sixteen_bits(torch::ScalarType type) {
  torch::manual_seed(1);
  Trained narrow;
  Trained wide;
  wide.parameter = narrow.parameter.clone();
  const torch::Tensor gradient = gradient_of(1).to(type);
  torch::Tensor copy = torch::zeros({kCount}, type);
  auto buffers = narrow.buffers<T>(gradient);
  if constexpr (std::is_same_v<T, c10::Half>) {
    buffers.fp16_copy = copy.data_ptr<T>();
  } else {
    buffers.bf16_copy = copy.data_ptr<T>();
  }
  flat_adam(buffers, 1, some_options(true), 4);
  // Division by a power of two is exact.
  const torch::Tensor as_float = gradient.to(torch::kFloat32) / 4;
  flat_adam(wide.buffers(as_float), 1, some_options(true));
  EXPECT_TRUE(narrow.parameter.equal(wide.parameter));
  EXPECT_TRUE(copy.equal(wide.parameter.to(type)));
}

TEST(FlatAdam, ReadsAndWritesSixteenBits) {
  expect_sixteen_bits<c10::BFloat16>(torch::kBFloat16);
  expect_sixteen_bits<c10::Half>(torch::kHalf);
}

TEST(VectorAdam, KeepsLibtorchsStateAndGoesItsWayWhereItMust) {
  torch::manual_seed(1);
  torch::Tensor mine = torch::randn({4, 5}).requires_grad_();
  torch::Tensor theirs = mine.detach().clone().requires_grad_();
  const auto vector =
      make_optimizer({mine}, {.name = "adamw", .lr = 0.1, .weight_decay = 0.1, .vectorised = true});
  const auto plain = make_optimizer({theirs}, {.name = "adamw", .lr = 0.1, .weight_decay = 0.1});
  ASSERT_NE(dynamic_cast<VectorAdamW*>(vector.get()), nullptr);
  for (int step = 0; step < 5; ++step) {
    torch::Tensor gradient = torch::randn({4, 5});
    if (step == 3) {
      gradient = torch::randn({5, 4}).t();  // strides that differ from those of the parameter
    }
    mine.mutable_grad() = gradient;
    theirs.mutable_grad() = gradient.clone();
    vector->step();
    plain->step();
  }
  EXPECT_TRUE(torch::allclose(mine, theirs, 1e-6, 1e-6));
  ASSERT_EQ(vector->state().size(), 1U);
  const auto& state =
      dynamic_cast<const torch::optim::AdamWParamState&>(*vector->state().begin()->second);
  EXPECT_EQ(state.step(), 5);
}

}  // namespace
}  // namespace lockstep::optim
