// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "tools/bench/gpt2_flops.h"

namespace lockstep::bench {
namespace {

TEST(Gpt2Flops, CountsTheParametersOfTheModelItself) {
  for (const char* size : {"tiny", "124M"}) {
    const Gpt2Options options = gpt2_options(size);
    int64_t count = 0;
    for (const torch::Tensor& parameter : Gpt2(options).parameters()) {
      count += parameter.numel();
    }
    EXPECT_EQ(gpt2_parameters(options), count) << size;
  }
  EXPECT_EQ(gpt2_parameters(gpt2_options("124M")), 124'439'808);
}

TEST(Gpt2Flops, AreThoseWorkedOutByHand) {
  const Gpt2Options options = gpt2_options("124M");
  // 6 x (124,439,808 - 1024 x 768) + 12 x 12 x 768 x 1024
  EXPECT_EQ(gpt2_flops_per_token(options, 1024), 855'166'464);
  EXPECT_EQ(gpt2_flops_per_token(options, 512), 798'543'360);
}

TEST(Gpt2Flops, KnowNoOtherSizes) {
  EXPECT_THROW(gpt2_options("125M"), Error);
}

}  // namespace
}  // namespace lockstep::bench
