// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/convolution.h"

#include <gmock/gmock.h>

#include "training/comm/solo.h"

namespace lockstep::train {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

struct Pixels : torch::nn::Module {
  explicit Pixels(torch::ScalarType type)
      : conv(register_module("conv", torch::nn::Conv2d(3, 4, 3))) {
    to(type);
  }

  torch::Tensor forward(const torch::Tensor& images) {
    return conv(images.to(conv->weight.scalar_type())).mean({2, 3});
  }

  torch::nn::Conv2d conv;
};

ConvolutionChoice choose(torch::ScalarType weights, torch::ScalarType pixels) {
  const bool before = at::globalContext().userEnabledMkldnn();
  at::globalContext().setUserEnabledMkldnn(true);  // independent of earlier tests
  comm::Solo solo;
  Pixels model(weights);
  const Batch batch{torch::ones({2, 3, 8, 8}).to(pixels), torch::zeros({2}, torch::kInt64)};
  const ConvolutionChoice choice =
      choose_convolution("auto", model, loss_of<Pixels>(CrossEntropy()), batch, solo);
  at::globalContext().setUserEnabledMkldnn(before);
  return choice;
}

TEST(Convolution, TriesBothWaysForNumbersAndForBytes) {
  if (!at::globalContext().hasMKLDNN()) {
    GTEST_SKIP() << "this libtorch has no oneDNN";
  }
  for (const torch::ScalarType pixels : {torch::kFloat32, torch::kUInt8}) {
    const ConvolutionChoice choice = choose(torch::kFloat32, pixels);
    EXPECT_THAT(choice.kernel, AnyOf("im2col", "onednn")) << pixels;
    EXPECT_THAT(choice.text, HasSubstr("on the first batch")) << pixels;
  }
}

TEST(Convolution, LeavesOtherNumbersAlone) {
  EXPECT_EQ(choose(torch::kFloat64, torch::kFloat64).kernel, "");
}

}  // namespace
}  // namespace lockstep::train
