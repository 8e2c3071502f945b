// SPDX-License-Identifier: Apache-2.0
#include "lockstep/lamb.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <vector>

#include "lockstep/optimizer.h"

namespace lockstep {
namespace {

// LAMB element by element in float64, written from its formulas.
struct Reference {
  std::vector<double> p, m, v;
  int step = 0;

  void update(const std::vector<double>& g, const LambOptions& o) {
    const auto [b1, b2] = o.betas();
    ++step;
    double length = 0;
    double change_length = 0;
    std::vector<double> change(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      m[i] = b1 * m[i] + (1 - b1) * g[i];
      v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
      const double root =
          o.eps_inside_sqrt() ? std::sqrt(v[i] + o.eps()) : std::sqrt(v[i]) + o.eps();
      change[i] = m[i] / root + o.weight_decay() * p[i];
      length += p[i] * p[i];
      change_length += change[i] * change[i];
    }
    double ratio = 1;
    if (length != 0 && change_length != 0) {
      ratio = std::clamp(std::sqrt(length / change_length), o.min_coeff(), o.max_coeff());
    }
    double size = o.lr();
    if (o.bias_correction()) {
      size *= std::sqrt(1 - std::pow(b2, step)) / (1 - std::pow(b1, step));
    }
    for (size_t i = 0; i < p.size(); ++i) {
      p[i] -= size * ratio * change[i];
    }
  }
};

// The largest difference after 20 steps.
double drift(const LambOptions& options, double scale) {
  torch::manual_seed(3);
  torch::Tensor parameter = (torch::randn({7}, torch::kFloat64) * scale).requires_grad_();
  const std::vector<double> start(parameter.data_ptr<double>(), parameter.data_ptr<double>() + 7);
  Reference expected{.p = start, .m = std::vector<double>(7), .v = std::vector<double>(7)};
  Lamb lamb({parameter}, options);
  double maximum = 0;
  for (int step = 0; step < 20; ++step) {
    const torch::Tensor gradient = torch::randn({7}, torch::kFloat64);
    parameter.mutable_grad() = gradient.clone();
    lamb.step();
    expected.update({gradient.data_ptr<double>(), gradient.data_ptr<double>() + 7}, options);
    for (int i = 0; i < 7; ++i) {
      maximum = std::max(
          maximum, std::abs(parameter[i].item<double>() - expected.p[static_cast<size_t>(i)]));
    }
  }
  return maximum;
}

// libtorch 2.14 replaces options of types that it does not know.
TEST(Lamb, KeepsTheOptionsOfEachGroup) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{torch::zeros({2}, torch::requires_grad())});
  groups.emplace_back(std::vector{torch::zeros({2}, torch::requires_grad())},
                      std::make_unique<LambOptions>(LambOptions(0.5).weight_decay(0.1)));
  const Lamb lamb(groups, LambOptions(0.01));

  const auto& first = dynamic_cast<const LambOptions&>(lamb.param_groups()[0].options());
  const auto& second = dynamic_cast<const LambOptions&>(lamb.param_groups()[1].options());
  EXPECT_EQ(first.lr(), 0.01);
  EXPECT_EQ(second.lr(), 0.5);
  EXPECT_EQ(second.weight_decay(), 0.1);
}

TEST(Lamb, FollowsItsFormulas) {
  EXPECT_LT(drift(LambOptions(0.01), 1), 1e-13);
  EXPECT_LT(drift(LambOptions(0.01).weight_decay(0.1).betas({0.8, 0.95}), 1), 1e-13);
  EXPECT_LT(drift(LambOptions(0.01).bias_correction(false), 1), 1e-13);
  EXPECT_LT(drift(LambOptions(0.01).eps_inside_sqrt(true).eps(1e-3), 1), 1e-13);
}

TEST(Lamb, KeepsTheRatioWithinItsBounds) {
  EXPECT_LT(drift(LambOptions(0.01), 1000), 1e-10);  // would be far above 10
  EXPECT_LT(drift(LambOptions(0.01), 1e-5), 1e-13);  // would be far below 0.01
}

TEST(Lamb, LeavesAParameterWithoutGradientAlone) {
  const torch::Tensor parameter = torch::ones({2}, torch::requires_grad());
  Lamb lamb({parameter});
  lamb.step();
  EXPECT_TRUE(parameter.equal(torch::ones({2})));
  EXPECT_TRUE(lamb.state().empty());
}

TEST(Lamb, MovesAParameterOfZeros) {
  torch::Tensor parameter = torch::zeros({2}, torch::requires_grad());
  parameter.mutable_grad() = torch::ones({2});
  Lamb lamb({parameter}, LambOptions(0.1));
  lamb.step();
  EXPECT_LT(parameter[0].item<double>(), 0);
}

TEST(MakeOptimizer, MakesLambAndAdagrad) {
  const std::vector<torch::Tensor> parameters = {torch::zeros({1}, torch::requires_grad())};
  const auto lamb = make_optimizer(parameters, {.name = "lamb", .lr = 0.5, .max_coeff = 3});
  EXPECT_EQ(static_cast<LambOptions&>(lamb->defaults()).max_coeff(), 3);
  EXPECT_THAT(learning_rates(*lamb), ::testing::ElementsAre(0.5));
  set_learning_rates(*lamb, {0.25});
  EXPECT_THAT(learning_rates(*lamb), ::testing::ElementsAre(0.25));
  const auto adagrad =
      make_optimizer(parameters, {.name = "adagrad", .lr = 0.5, .epsilon = 1e-6, .lr_decay = 0.1});
  EXPECT_EQ(static_cast<torch::optim::AdagradOptions&>(adagrad->defaults()).lr_decay(), 0.1);
  EXPECT_EQ(static_cast<torch::optim::AdagradOptions&>(adagrad->defaults()).eps(), 1e-6);
}

}  // namespace
}  // namespace lockstep
