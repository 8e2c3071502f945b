// SPDX-License-Identifier: Apache-2.0
// Compares the fused optimizers with those of libtorch, on a GPU.
#include "training/optim/fused.h"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

struct Case {
  std::string name;
  OptimizerOptions options;
  double clip = 0;
};

std::vector<torch::optim::OptimizerParamGroup> group(const std::vector<torch::Tensor>& parameters) {
  return {torch::optim::OptimizerParamGroup(parameters)};
}

class FusedOptimizers : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available() ||
        optim::make_fused(group({torch::ones({1})}), {}) == nullptr) {
      GTEST_SKIP() << "needs a build with CUDA, and a GPU";
    }
    torch::manual_seed(3);
  }
};

// Odd sizes, one parameter whose gradient starts later, and one that never has a gradient.
std::vector<torch::Tensor> some_parameters() {
  std::vector<torch::Tensor> parameters;
  for (const int64_t count : {1L, 7L, 1024L, 100'003L, 65'536L, 12L}) {
    parameters.push_back(torch::randn({count}, torch::kCUDA).requires_grad_());
  }
  parameters.push_back(torch::randn({33, 65}, torch::kCUDA).requires_grad_());
  return parameters;
}

void set_gradients(std::vector<torch::Tensor>& to, std::vector<torch::Tensor>& other, int step) {
  for (size_t i = 0; i < to.size(); ++i) {
    const bool has_one = i != 5 && (i != 2 || step >= 2);
    const torch::Tensor gradient = has_one ? torch::randn_like(to[i]) * 3 : torch::Tensor();
    to[i].mutable_grad() = has_one ? gradient.clone() : gradient;
    other[i].mutable_grad() = has_one ? gradient.to(torch::kFloat64) : gradient;
  }
}

std::unique_ptr<torch::optim::Optimizer> reference(std::vector<torch::Tensor> parameters,
                                                   const OptimizerOptions& o) {
  if (o.name == "sgd") {
    return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                               torch::optim::SGDOptions(o.lr)
                                                   .momentum(o.momentum)
                                                   .dampening(o.dampening)
                                                   .nesterov(o.nesterov)
                                                   .weight_decay(o.weight_decay));
  }
  const auto betas = std::make_tuple(o.beta1, o.beta2);
  if (o.name == "adam") {
    return std::make_unique<torch::optim::Adam>(
        std::move(parameters),
        torch::optim::AdamOptions(o.lr).betas(betas).eps(o.epsilon).weight_decay(o.weight_decay));
  }
  return std::make_unique<torch::optim::AdamW>(
      std::move(parameters),
      torch::optim::AdamWOptions(o.lr).betas(betas).eps(o.epsilon).weight_decay(o.weight_decay));
}

TEST_P(FusedOptimizers, MakeTheStepsOfLibtorch) {
  std::vector<torch::Tensor> parameters = some_parameters();
  std::vector<torch::Tensor> exact;
  for (const torch::Tensor& parameter : parameters) {
    exact.push_back(parameter.detach().to(torch::kFloat64).requires_grad_());
  }
  const auto optimizer = optim::make_fused(group(parameters), GetParam().options);
  const auto wanted = reference(exact, GetParam().options);
  auto& fused = dynamic_cast<optim::FusedOptimizer&>(*optimizer);
  for (int step = 0; step < 6; ++step) {
    set_gradients(parameters, exact, step);
    ASSERT_TRUE(fused.is_fused());
    fused.step_fused(
        {.clip_norm = GetParam().clip, .gradient_scale = 0.5, .wants_norm = step % 2 == 1});
    for (const torch::Tensor& parameter : exact) {
      if (parameter.grad().defined()) {
        parameter.grad().mul_(0.5);
      }
    }
    if (GetParam().clip > 0 || step % 2 == 1) {
      const double limit = GetParam().clip > 0 ? GetParam().clip : 1e9;
      const double norm = clip_gradients(exact, limit);
      EXPECT_NEAR(fused.norm().item<double>(), norm, 1e-5 * norm);
    }
    wanted->step();
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const double error =
        (parameters[i].detach().to(torch::kFloat64) - exact[i].detach()).abs().max().item<double>();
    EXPECT_LT(error, 2e-5) << "parameter " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds,
    FusedOptimizers,
    ::testing::Values(
        Case{"adamw", {.name = "adamw", .lr = 0.01, .weight_decay = 0.1, .beta2 = 0.95}},
        Case{"adamw_clipped", {.name = "adamw", .lr = 0.01, .weight_decay = 0.1}, 1},
        Case{"adam_decayed", {.name = "adam", .lr = 0.01, .weight_decay = 0.1}},
        Case{"sgd_plain", {.name = "sgd", .lr = 0.01, .momentum = 0}},
        Case{"sgd_momentum", {.name = "sgd", .lr = 0.01, .momentum = 0.9, .weight_decay = 0.1}},
        Case{"sgd_dampened", {.name = "sgd", .lr = 0.01, .momentum = 0.9, .dampening = 0.3}},
        Case{"sgd_nesterov", {.name = "sgd", .lr = 0.01, .nesterov = true}, 5}),
    [](const auto& each) { return each.param.name; });

// `here` is the reference: libtorch makes the step of parameters on the CPU.
TEST_F(FusedOptimizers, TakeTheWeightDecayOfEachGroup) {
  for (const std::string name : {"sgd", "adam", "adamw"}) {
    torch::nn::Linear here(33, 65);
    torch::nn::Linear there(33, 65);
    const OptimizerOptions options{.name = name, .lr = 0.01, .weight_decay = 0.5};
    {
      const torch::NoGradGuard no_grad;
      there->weight.copy_(here->weight);
      there->bias.copy_(here->bias);
    }
    there->to(torch::kCUDA);
    const auto wanted = make_optimizer(*here, options);
    const auto optimizer = make_optimizer(*there, options);
    for (int step = 0; step < 5; ++step) {
      for (size_t i = 0; i < here->parameters().size(); ++i) {
        const torch::Tensor gradient = torch::randn_like(here->parameters()[i]);
        here->parameters()[i].mutable_grad() = gradient;
        there->parameters()[i].mutable_grad() = gradient.to(torch::kCUDA);
      }
      ASSERT_TRUE(dynamic_cast<optim::FusedOptimizer&>(*optimizer).is_fused());
      wanted->step();
      optimizer->step();
    }
    for (size_t i = 0; i < here->parameters().size(); ++i) {
      const torch::Tensor found = there->parameters()[i].detach().cpu();
      EXPECT_LT((found - here->parameters()[i].detach()).abs().max().item<double>(), 1e-5)
          << name << " parameter " << i;
    }
  }
}

// Shapes that are batched, wide, tall, not a multiple of four, and a convolution whose rows are
// permuted in memory; then parameters of AdamW.
std::vector<torch::Tensor> parameters_of_muon() {
  std::vector<torch::Tensor> parameters;
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{64, 64},
                                                                             {32, 128},
                                                                             {64, 64},
                                                                             {128, 32},
                                                                             {33, 65},
                                                                             {64, 64},
                                                                             {16, 8, 3, 3},
                                                                             {65},
                                                                             {8}}) {
    parameters.push_back(torch::randn(shape, torch::kCUDA));
  }
  parameters[6] = parameters[6].contiguous(torch::MemoryFormat::ChannelsLast);
  for (torch::Tensor& parameter : parameters) {
    parameter.requires_grad_();
  }
  return parameters;
}

// Five iterations in bfloat16 leave an error of about one percent of each update.
TEST_F(FusedOptimizers, MakeTheStepsOfMuon) {
  constexpr size_t kMatrices = 7;
  std::vector<torch::Tensor> parameters = parameters_of_muon();
  std::vector<torch::Tensor> exact;
  std::vector<torch::Tensor> start;
  for (const torch::Tensor& parameter : parameters) {
    exact.push_back(parameter.detach().cpu().to(torch::kFloat64).requires_grad_());
    start.push_back(exact.back().detach().clone());
  }
  OptimizerOptions options{.name = "muon", .lr = 0.02, .weight_decay = 0.1};
  options.matrices = {exact.begin(), exact.begin() + kMatrices};
  const auto wanted = make_optimizer(exact, options);
  options.matrices = {parameters.begin(), parameters.begin() + kMatrices};
  const auto optimizer = make_optimizer(parameters, options);
  auto& fused = dynamic_cast<optim::FusedOptimizer&>(*optimizer);
  for (int step = 0; step < 6; ++step) {
    for (size_t i = 0; i < exact.size(); ++i) {
      parameters[i].mutable_grad() = torch::randn_like(parameters[i]) * 3;
      exact[i].mutable_grad() = parameters[i].grad().cpu().to(torch::kFloat64) * 0.5;
    }
    const double norm = clip_gradients(exact, 1);
    ASSERT_TRUE(fused.is_fused());
    fused.step_fused({.clip_norm = 1, .gradient_scale = 0.5});
    EXPECT_NEAR(fused.norm().item<double>(), norm, 1e-5 * norm);
    wanted->step();
  }
  for (size_t i = 0; i < exact.size(); ++i) {
    const torch::Tensor found = parameters[i].detach().cpu().to(torch::kFloat64);
    const double error = (found - exact[i].detach()).norm().item<double>();
    const double change = (exact[i].detach() - start[i]).norm().item<double>();
    EXPECT_LT(error, (i < kMatrices ? 0.05 : 1e-4) * change) << "parameter " << i;
  }
}

TEST_F(FusedOptimizers, LeaveWhatIsNotOnAGpuToLibtorch) {
  torch::Tensor parameter = torch::ones({3}).requires_grad_();
  const auto optimizer =
      optim::make_fused(group({parameter}), {.name = "sgd", .lr = 1, .momentum = 0});
  parameter.mutable_grad() = torch::ones({3});
  EXPECT_FALSE(dynamic_cast<optim::FusedOptimizer&>(*optimizer).is_fused());
  optimizer->step();
  EXPECT_TRUE(parameter.detach().eq(0).all().item<bool>());
}

}  // namespace
}  // namespace lockstep
