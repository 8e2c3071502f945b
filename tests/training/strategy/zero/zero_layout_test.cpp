// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "training/strategy/zero/layout.h"

namespace lockstep::strategy::zero {
namespace {

using ::testing::ElementsAre;

// Has a weight, under its own name, that belongs to another module.
struct Head : torch::nn::Module {
  explicit Head(const torch::Tensor& shared)
      : weight(register_parameter("weight", shared)),
        bias(register_parameter("bias", torch::zeros({shared.size(0)}))) {}

  torch::Tensor weight;
  torch::Tensor bias;
};

struct Tied : torch::nn::Module {
  Tied()
      : embedding(register_module("embedding", torch::nn::Embedding(10, 4))),
        inner(register_module("inner", torch::nn::Linear(4, 4))),
        head(register_module("head", std::make_shared<Head>(embedding->weight))),
        scale(register_parameter("scale", torch::ones({1}))) {
    inner->bias.set_requires_grad(false);
  }

  torch::nn::Embedding embedding;
  torch::nn::Linear inner;
  std::shared_ptr<Head> head;
  torch::Tensor scale;
};

std::vector<std::vector<std::string>> names_of(
    const std::vector<FlatParameterPlan>& flat_parameters) {
  std::vector<std::vector<std::string>> all;
  for (const FlatParameterPlan& flat : flat_parameters) {
    all.emplace_back();
    for (const Member& member : flat.members) {
      all.back().push_back(member.name);
    }
  }
  return all;
}

TEST(ZeroLayout, PacksTrainedParametersFromTheLastToTheFirst) {
  const Tied model;
  EXPECT_THAT(names_of(plan_flat_parameters(model, {.stage = 2, .bucket_elements = 40})),
              ElementsAre(ElementsAre("head.bias", "inner.weight"),
                          ElementsAre("embedding.weight"),
                          ElementsAre("scale")));
}

TEST(ZeroLayout, GivesEachModuleAUnitAtStageThree) {
  const Tied model;
  const std::vector<FlatParameterPlan> flat_parameters =
      plan_flat_parameters(model, {.stage = 3, .bucket_elements = 40, .persistence_threshold = 5});
  EXPECT_THAT(names_of(flat_parameters),
              ElementsAre(ElementsAre("embedding.weight"),
                          ElementsAre("inner.weight"),
                          ElementsAre("head.bias"),
                          ElementsAre("scale"),
                          ElementsAre("inner.bias")));
  EXPECT_FALSE(flat_parameters[0].stays_whole);
  EXPECT_TRUE(flat_parameters[3].stays_whole);
  EXPECT_TRUE(flat_parameters[3].trained);
  EXPECT_FALSE(flat_parameters[4].trained);
}

TEST(ZeroLayout, LeavesTheTypeOfParametersNextToBuffers) {
  torch::nn::Sequential model(torch::nn::Linear(3, 3), torch::nn::BatchNorm1d(3));
  const std::vector<FlatParameterPlan> flat_parameters = plan_flat_parameters(*model, {.stage = 1});
  EXPECT_THAT(names_of(flat_parameters),
              ElementsAre(ElementsAre("1.bias", "1.weight"), ElementsAre("0.bias", "0.weight")));
  EXPECT_TRUE(flat_parameters[0].keeps_type);
  EXPECT_FALSE(flat_parameters[1].keeps_type);
}

TEST(ZeroLayout, LaysMembersEndToEnd) {
  const Tied model;
  const FlatParameterPlan flat = plan_flat_parameters(model, {.stage = 1}).front();
  int64_t end = 0;
  for (const Member& member : flat.members) {
    EXPECT_EQ(member.begin, end);
    end += member.parameter.numel();
  }
  EXPECT_EQ(flat.elements, end);
}

TEST(ZeroLayout, CutsAnyNumberIntoShares) {
  for (const int workers : {1, 2, 3, 4, 7}) {
    for (const int64_t elements : {1, 2, 3, 10, 97}) {
      int64_t end = 0;
      for (int rank = 0; rank < workers; ++rank) {
        const Span share = shard_of(elements, workers, rank);
        EXPECT_EQ(share.begin, end);
        EXPECT_LE(share.size(), shard_size(elements, workers));
        end = share.end;
      }
      EXPECT_EQ(end, elements);
    }
  }
}

TEST(ZeroLayout, IntersectsSpans) {
  EXPECT_EQ(intersect({0, 5}, {3, 9}), (Span{3, 5}));
  EXPECT_EQ(intersect({0, 3}, {3, 9}).size(), 0);
  EXPECT_EQ(intersect({2, 4}, {0, 9}), (Span{2, 4}));
}

}  // namespace
}  // namespace lockstep::strategy::zero
