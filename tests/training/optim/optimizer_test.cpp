// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optimizer.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep {
namespace {

using ::testing::ThrowsMessage;

torch::Tensor parameter_with_gradient(double value) {
  torch::Tensor parameter = torch::zeros({2}, torch::requires_grad());
  parameter.mutable_grad() = torch::full({2}, value);
  return parameter;
}

TEST(MakeOptimizer, GivesEachKindItsOptions) {
  const std::vector<torch::Tensor> parameters = {parameter_with_gradient(1)};
  const auto sgd = make_optimizer(parameters, {.name = "sgd", .lr = 0.1, .momentum = 0.5});
  const auto adam = make_optimizer(parameters, {.name = "adam", .lr = 0.2, .beta2 = 0.99});
  const auto adamw = make_optimizer(parameters, {.name = "adamw", .lr = 0.3, .weight_decay = 0.01});

  EXPECT_DOUBLE_EQ(static_cast<torch::optim::SGDOptions&>(sgd->defaults()).momentum(), 0.5);
  EXPECT_DOUBLE_EQ(std::get<1>(static_cast<torch::optim::AdamOptions&>(adam->defaults()).betas()),
                   0.99);
  EXPECT_DOUBLE_EQ(static_cast<torch::optim::AdamWOptions&>(adamw->defaults()).weight_decay(),
                   0.01);
  EXPECT_THAT(learning_rates(*adamw), ::testing::ElementsAre(0.3));
}

TEST(MakeOptimizer, MovesASharedTensorOncePerStep) {
  torch::Tensor shared = torch::ones({1}, torch::requires_grad());
  const auto sgd = make_optimizer({shared, shared}, {.name = "sgd", .lr = 0.25, .momentum = 0});
  shared.sum().backward();

  sgd->step();

  EXPECT_EQ(shared.item<double>(), 0.75);
}

TEST(MakeOptimizer, ListsTheNamesWhenOneIsMisspelt) {
  EXPECT_THAT([] { make_optimizer({}, {.name = "adm"}); },
              ThrowsMessage<Error>("unknown optimizer 'adm'\n"
                                   "  requested: --optimizer adm  (command line)\n"
                                   "  available: sgd, adam, adamw, lamb, adagrad, muon\n"
                                   "  try:       --optimizer adam"));
}

struct Normed : torch::nn::Module {
  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(3, 4, 3));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(4));
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(4, 2));
};

// With zero gradients, only weight decay changes a parameter.
TEST(MakeOptimizer, LeavesNormsAndBiasesWithoutWeightDecay) {
  for (const std::string name : {"sgd", "adam", "adamw", "lamb", "adagrad"}) {
    for (const bool vectorised : {false, true}) {
      SCOPED_TRACE(name);
      Normed model;
      const auto optimizer = make_optimizer(
          model, {.name = name, .lr = 0.1, .weight_decay = 0.5, .vectorised = vectorised});
      std::map<std::string, torch::Tensor> before;
      for (auto& item : model.named_parameters()) {
        item.value().mutable_grad() = torch::zeros_like(item.value());
        torch::NoGradGuard no_grad;
        item.value().add_(0.25);
        before[item.key()] = item.value().detach().clone();
      }

      optimizer->step();

      ASSERT_EQ(optimizer->param_groups().size(), 2U);
      EXPECT_EQ(optimizer->param_groups()[0].params().size(), 2U);
      EXPECT_EQ(optimizer->param_groups()[1].params().size(), 4U);
      for (const auto& item : model.named_parameters()) {
        const bool is_decayed = item.key() == "conv.weight" || item.key() == "linear.weight";
        EXPECT_EQ(item.value().equal(before[item.key()]), !is_decayed) << item.key();
      }
    }
  }
}

TEST(LearningRates, AreSetPerGroup) {
  torch::optim::SGD sgd({torch::optim::OptimizerParamGroup({parameter_with_gradient(1)}),
                         torch::optim::OptimizerParamGroup({parameter_with_gradient(1)})},
                        torch::optim::SGDOptions(0.1));

  set_learning_rates(sgd, {0.25, 0.5});

  EXPECT_THAT(learning_rates(sgd), ::testing::ElementsAre(0.25, 0.5));
}

TEST(ClipGradients, ScalesAllByTheNormOfAllTogether) {
  const std::vector<torch::Tensor> parameters = {parameter_with_gradient(3),
                                                 parameter_with_gradient(4),
                                                 torch::zeros({1}, torch::requires_grad())};

  const double norm = clip_gradients(parameters, 1);

  EXPECT_NEAR(norm, std::sqrt(2 * 9 + 2 * 16), 1e-6);
  EXPECT_NEAR(parameters[0].grad()[0].item<double>(), 3 / norm, 1e-6);
  EXPECT_NEAR(parameters[1].grad()[1].item<double>(), 4 / norm, 1e-6);
}

TEST(ClipGradients, LeavesShortOnesAlone) {
  const std::vector<torch::Tensor> parameters = {parameter_with_gradient(0.1)};

  clip_gradients(parameters, 1);

  EXPECT_TRUE(parameters[0].grad().equal(torch::full({2}, 0.1)));
}

TEST(LrScaling, FollowsTheNumberOfWorkersOnlyWhenAsked) {
  EXPECT_DOUBLE_EQ(lr_factor(parse_lr_scaling("none"), 4), 1);
  EXPECT_DOUBLE_EQ(lr_factor(parse_lr_scaling("linear"), 4), 4);
  EXPECT_DOUBLE_EQ(lr_factor(parse_lr_scaling("sqrt"), 4), 2);
  EXPECT_THAT([] { parse_lr_scaling("liner"); },
              ThrowsMessage<Error>("unknown learning-rate scaling 'liner'\n"
                                   "  requested: --scale-lr liner  (command line)\n"
                                   "  available: none, linear, sqrt\n"
                                   "  try:       --scale-lr linear"));
}

}  // namespace
}  // namespace lockstep
