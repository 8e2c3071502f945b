// SPDX-License-Identifier: Apache-2.0
#include "training/optim/squares.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

namespace lockstep::optim {
namespace {

TEST(SumOfSquares, IsTheSameHoweverItIsCutUp) {
  torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{4});
  const torch::Tensor values = torch::randn({100'003}, generator) * 1e-3;
  const double whole = sum_of_squares(values);
  EXPECT_NEAR(whole / values.to(torch::kFloat64).square().sum().item<double>(), 1, 1e-14);
  for (const int64_t cut : {1, 17, 4096, 50'000}) {
    const double parts = sum_of_squares(values.narrow(0, 0, cut)) +
                         sum_of_squares(values.narrow(0, cut, values.numel() - cut));
    EXPECT_NEAR(parts / whole, 1, 1e-14) << cut;
  }
}

TEST(SumOfSquares, TakesEveryTypeAndShape) {
  EXPECT_EQ(sum_of_squares(torch::full({3, 5}, 2.0, torch::kFloat64)), 60);
  EXPECT_EQ(sum_of_squares(torch::full({3, 5}, 2.0).t()), 60);
  EXPECT_EQ(sum_of_squares(torch::full({70}, 0.5, torch::kBFloat16)), 17.5);
  EXPECT_EQ(sum_of_squares(torch::zeros({0})), 0);
  // Beyond the range of a float.
  EXPECT_EQ(sum_of_squares(torch::full({2}, 1e30)), 2 * std::pow(double{1e30F}, 2));
  EXPECT_TRUE(std::isnan(sum_of_squares(torch::full({40}, std::nan("")))));
}

}  // namespace
}  // namespace lockstep::optim
