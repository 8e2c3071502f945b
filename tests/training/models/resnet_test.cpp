// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <gmock/gmock.h>

#include "common/os/command.h"
#include "common/os/files.h"
#include "lockstep/checkpoint.h"
#include "lockstep/error.h"
#include "lockstep/models.h"
#include "lockstep/strategy.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int kNoTorch = 77;

int64_t count(const torch::nn::Module& net) {
  int64_t all = 0;
  for (const torch::Tensor& parameter : net.parameters()) {
    all += parameter.numel();
  }
  return all;
}

TEST(ResNet, ComesInTheSizesThatWerePublished) {
  EXPECT_THAT(resnet_names(),
              ElementsAre("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"));
  // Values from the documentation of torchvision.
  EXPECT_EQ(count(*resnet("resnet18")), 11'689'512);
  EXPECT_EQ(count(*resnet("resnet34")), 21'797'672);
  EXPECT_EQ(count(*resnet("resnet50")), 25'557'032);
  EXPECT_EQ(count(*resnet("resnet101")), 44'549'160);
  EXPECT_EQ(count(*resnet("resnet152")), 60'192'808);
  EXPECT_THAT(
      [] { resnet("resnet51"); },
      ThrowsMessage<Error>("unknown network 'resnet51'\n"
                           "  available: resnet18, resnet34, resnet50, resnet101, resnet152\n"
                           "  try:       --net resnet50"));
}

TEST(ResNet, HasTheNamesOfTorchvision) {
  std::vector<std::string> names;
  for (const auto& item : resnet("resnet50")->named_parameters()) {
    if (item.key().starts_with("layer2.0") || !item.key().starts_with("layer")) {
      names.push_back(item.key());
    }
  }
  EXPECT_THAT(names,
              ElementsAre("conv1.weight",
                          "bn1.weight",
                          "bn1.bias",
                          "layer2.0.conv1.weight",
                          "layer2.0.bn1.weight",
                          "layer2.0.bn1.bias",
                          "layer2.0.conv2.weight",
                          "layer2.0.bn2.weight",
                          "layer2.0.bn2.bias",
                          "layer2.0.conv3.weight",
                          "layer2.0.bn3.weight",
                          "layer2.0.bn3.bias",
                          "layer2.0.downsample.0.weight",
                          "layer2.0.downsample.1.weight",
                          "layer2.0.downsample.1.bias",
                          "fc.weight",
                          "fc.bias"));
}

TEST(ResNet, EqualsTorchvisionsBothWays) {
  for (const std::string name : {"resnet18", "resnet50"}) {
    SCOPED_TRACE(name);
    const os::TemporaryDirectory folder;
    torch::manual_seed(3);
    const auto net = resnet(name, {.classes = 10});
    const torch::Tensor images = torch::randn({4, 3, 64, 64});
    save_weights(folder.path() / "weights.pt", collect_model(*net));
    save_weights(folder.path() / "images.pt", {{"images", images}});
    const os::CommandResult python =
        os::run_command({LOCKSTEP_PYTHON,
                         LOCKSTEP_SOURCE_DIR "/tests/training/models/resnet_torchvision.py",
                         folder.path().string(),
                         name});
    if (python.status.code == kNoTorch) {
      GTEST_SKIP() << LOCKSTEP_PYTHON << " lacks a package: " << python.output;
    }
    ASSERT_EQ(python.status.code, 0) << python.errors;
    const torch::Tensor scores = net->forward(images);
    scores.square().sum().backward();
    const auto parameters = net->named_parameters();
    size_t compared = 0;
    for (const auto& [key, expected] : load_weights(folder.path() / "expected.pt")) {
      torch::Tensor mine;
      if (key == "scores") {
        mine = scores;
      } else if (key == "scores_of_own") {
        const auto theirs = resnet(name, {.classes = 10});
        apply_model(*theirs, load_weights(folder.path() / "own.pt"), "own.pt");
        theirs->eval();
        const torch::NoGradGuard no_grad;
        mine = theirs->forward(images);
      } else {
        mine = parameters[key.substr(std::string("gradient.").size())].grad();
      }
      const double scale = std::max(1.0, expected.abs().max().item<double>());
      EXPECT_LE((mine - expected).abs().max().item<double>(), 1e-4 * scale) << key;
      ++compared;
    }
    EXPECT_EQ(compared, parameters.size() + 2);
  }
}

TEST(ResNet, NormalisesBytesAsImageNetsImagesAre) {
  torch::manual_seed(3);
  const auto net = resnet("resnet18", {.classes = 5});
  net->eval();
  const torch::NoGradGuard no_grad;
  const torch::Tensor bytes = torch::randint(0, 256, {2, 3, 64, 64}, torch::kUInt8)
                                  .contiguous(torch::MemoryFormat::ChannelsLast);
  const torch::Tensor mean = torch::tensor({0.485, 0.456, 0.406}).view({3, 1, 1});
  const torch::Tensor deviation = torch::tensor({0.229, 0.224, 0.225}).view({3, 1, 1});
  const torch::Tensor floats = (bytes.to(torch::kFloat32) / 255 - mean) / deviation;
  EXPECT_LE((net->forward(bytes) - net->forward(floats)).abs().max().item<double>(), 1e-4);
}

TEST(ResNet, KeepsSmallImagesLarge) {
  const auto net = resnet("resnet18", {.classes = 5, .small_images = true});
  EXPECT_EQ(net->named_parameters()["conv1.weight"].size(2), 3);
  EXPECT_EQ(net->forward(torch::zeros({2, 3, 16, 16}, torch::kUInt8)).size(1), 5);
}

TEST(ResNet, MayBeginWithBlocksThatDoNothing) {
  const auto net = resnet("resnet50", {.classes = 5, .zero_last_gamma = true});
  EXPECT_EQ(net->named_parameters()["layer1.0.bn3.weight"].abs().sum().item<double>(), 0);
  EXPECT_NE(net->named_parameters()["layer1.0.bn2.weight"].abs().sum().item<double>(), 0);
}

TEST(ResNet, HasTheLossOfItsScores) {
  namespace F = torch::nn::functional;
  torch::manual_seed(3);
  const auto net = resnet("resnet18", {.classes = 5, .small_images = true});
  const torch::Tensor images = torch::randn({3, 3, 16, 16});
  const torch::Tensor classes = torch::tensor({0, 4, 2}, torch::kInt64);
  for (const torch::Tensor& targets : {classes, torch::rand({3, 5}).softmax(1)}) {
    for (const bool trains : {true, false}) {
      SCOPED_TRACE(trains);
      net->train(trains);
      const Loss loss = CrossEntropy{.label_smoothing = 0.1}(*net, {images, targets});
      const auto options = F::CrossEntropyFuncOptions().label_smoothing(trains ? 0.1 : 0);
      EXPECT_FLOAT_EQ(loss.value.item<float>(),
                      F::cross_entropy(loss.scores, targets, options).item<float>());
    }
  }
}

TEST(ResNet, HasTheSameGradientsWhenBlocksAreComputedAgain) {
  torch::manual_seed(3);
  const auto plain = resnet("resnet18", {.classes = 5, .small_images = true});
  const auto again = resnet("resnet18", {.classes = 5, .small_images = true, .recompute = true});
  apply_model(*again, collect_model(*plain), "plain");
  const Batch batch{torch::randn({3, 3, 16, 16}), torch::tensor({0, 1, 2}, torch::kInt64)};
  CrossEntropy()(*plain, batch).value.backward();
  CrossEntropy()(*again, batch).value.backward();
  for (size_t i = 0; i < plain->parameters().size(); ++i) {
    EXPECT_TRUE(plain->parameters()[i].grad().equal(again->parameters()[i].grad())) << i;
  }
}

}  // namespace
}  // namespace lockstep
