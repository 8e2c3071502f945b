// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/apply_step.h"

#include <gmock/gmock.h>
#include <limits>

namespace lockstep::strategy {
namespace {

struct Weights {
  explicit Weights(std::vector<double> gradient)
      : both({torch::zeros({2}, torch::kFloat64).set_requires_grad(true),
              torch::zeros({1}, torch::kFloat64).set_requires_grad(true)}),
        sgd(both, 1.0) {
    both[0].mutable_grad() = torch::tensor(std::move(gradient), torch::kFloat64);
  }

  std::vector<torch::Tensor> both;  // the second has no gradient
  torch::optim::SGD sgd;
};

TEST(ApplyStep, TakesOutTheLossScaleBeforeItClips) {
  Weights weights({3 * 64.0, 4 * 64.0});

  const StepResult result =
      apply_step(weights.sgd, weights.both, {.clip_norm = 1, .loss_scale = 64});

  EXPECT_DOUBLE_EQ(result.norm, 5);
  EXPECT_TRUE(
      weights.both[0].detach().allclose(torch::tensor({-0.6, -0.8}, torch::kFloat64), 1e-5));
  EXPECT_FALSE(weights.both[0].grad().defined());
}

TEST(ApplyStep, ReportsTheNormWithoutClipping) {
  Weights weights({3 * 64.0, 4 * 64.0});

  const StepResult result =
      apply_step(weights.sgd, weights.both, {.loss_scale = 64, .wants_norm = true});

  EXPECT_DOUBLE_EQ(result.norm, 5);
  EXPECT_TRUE(weights.both[0].detach().allclose(torch::tensor({-3., -4.}, torch::kFloat64)));
}

TEST(ApplyStep, LeavesOutAStepThatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    Weights weights({1, bad});

    const StepResult result =
        apply_step(weights.sgd, weights.both, {.clip_norm = 1, .check_finite = true});

    EXPECT_FALSE(result.applied);
    EXPECT_TRUE(weights.both[0].detach().eq(0).all().item<bool>());
    EXPECT_FALSE(weights.both[0].grad().defined());
  }
}

TEST(ApplyStep, TakesLargeGradientsWhoseSumIsNotFinite) {
  const double large = std::numeric_limits<double>::max();
  Weights weights({large, large});

  EXPECT_TRUE(apply_step(weights.sgd, weights.both, {.check_finite = true}).applied);
  EXPECT_EQ(weights.both[0][0].item<double>(), -large);
}

TEST(ApplyStep, DoesNotLookUnlessAsked) {
  Weights weights({1, std::numeric_limits<double>::quiet_NaN()});

  EXPECT_TRUE(apply_step(weights.sgd, weights.both, {}).applied);
}

}  // namespace
}  // namespace lockstep::strategy
