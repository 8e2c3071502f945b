// SPDX-License-Identifier: Apache-2.0
//
// The fused parts of GPT-2 against libtorch's operators, on a GPU.
#include "training/models/gpt2_fused.h"

#include <cmath>
#include <gmock/gmock.h>

#include "lockstep/gpt2.h"
#include "lockstep/recompute.h"
#include "lockstep/strategy.h"
#include "training/models/autocast.h"

namespace lockstep {
namespace {

class FusedGpt2 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available() ||
        models::make_fused_engine(torch::empty({1}, torch::kCUDA), 768, 12) == nullptr) {
      GTEST_SKIP() << "needs a build with CUDA, and a GPU";
    }
    torch::manual_seed(11);
  }
};

constexpr int64_t kVocabulary = 1003;  // no multiple of anything

Gpt2Options some_options() {
  return {.layers = 3, .heads = 4, .width = 256, .context = 192, .vocabulary = kVocabulary};
}

Batch some_tokens(int64_t count = 3, int64_t length = 160) {
  const torch::Tensor all = torch::randint(
      kVocabulary, {count, length + 1}, torch::dtype(torch::kInt64).device(torch::kCUDA));
  return {all.narrow(1, 0, length).contiguous(), all.narrow(1, 1, length).contiguous()};
}

std::vector<torch::Tensor> gradients_of(Gpt2& net, const torch::Tensor& loss) {
  net.zero_grad();
  loss.backward();
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : net.parameters()) {
    gradients.push_back(parameter.grad().to(torch::kFloat64).clone());
  }
  return gradients;
}

double relative(const torch::Tensor& found, const torch::Tensor& wanted) {
  return ((found - wanted).norm() / wanted.norm()).item<double>();
}

// Weights larger than at the start, so that every part matters.
void spread(Gpt2& net) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : net.parameters()) {
    parameter.add_(torch::randn_like(parameter) * 0.05);
  }
}

struct Computed {
  double loss;
  std::vector<torch::Tensor> gradients;
};

Computed compute(Gpt2& net, const Batch& batch, std::optional<torch::ScalarType> type) {
  torch::Tensor loss;
  {
    const models::AutocastScope scope(torch::kCUDA, type);
    loss = NextToken()(net, batch).value;
  }
  return {loss.item<double>(), gradients_of(net, loss)};
}

TEST_F(FusedGpt2, HasTheLossAndGradientsOfTheExactOneWithinSixteenBits) {
  Gpt2 net(some_options());
  net.to(torch::kCUDA);
  spread(net);
  const Batch batch = some_tokens();
  Gpt2 exact(some_options());
  exact.to(torch::kCUDA);
  {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < net.parameters().size(); ++i) {
      exact.parameters()[i].copy_(net.parameters()[i]);
    }
  }
  exact.to(torch::kFloat64);

  const Computed wanted = compute(exact, batch, std::nullopt);
  const Computed found = compute(net, batch, torch::kBFloat16);

  // Eight bits of mantissa: half a percent a rounding, some of them on each way.
  EXPECT_NEAR(found.loss, wanted.loss, 5e-3 * wanted.loss);
  const auto names = net.named_parameters();
  for (size_t i = 0; i < wanted.gradients.size(); ++i) {
    EXPECT_LT(relative(found.gradients[i], wanted.gradients[i]), 0.03) << names[i].key();
  }
}

TEST_F(FusedGpt2, IsNoLessExactThanLibtorchsOwnBfloat16) {
  Gpt2 net(some_options());
  net.to(torch::kCUDA);
  spread(net);
  const Batch batch = some_tokens();
  const Computed wanted = compute(net, batch, std::nullopt);
  const Computed fused = compute(net, batch, torch::kBFloat16);
  // Dropout that drops nothing worth a word sends it libtorch's way.
  Gpt2Options options = some_options();
  options.dropout = 1e-9;
  Gpt2 plain(options);
  plain.to(torch::kCUDA);
  {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < net.parameters().size(); ++i) {
      plain.parameters()[i].copy_(net.parameters()[i]);
    }
  }
  const Computed autocast = compute(plain, batch, torch::kBFloat16);

  double fused_error = 0;
  double autocast_error = 0;
  for (size_t i = 0; i < wanted.gradients.size(); ++i) {
    fused_error += relative(fused.gradients[i], wanted.gradients[i]);
    autocast_error += relative(autocast.gradients[i], wanted.gradients[i]);
  }
  EXPECT_LT(fused_error, 2 * autocast_error);
  EXPECT_GT(autocast_error, 0);
}

TEST_F(FusedGpt2, HasTheSameBitsTwiceAndWhenComputedAgain) {
  Gpt2Options options = some_options();
  Gpt2 net(options);
  net.to(torch::kCUDA);
  spread(net);
  options.recompute = true;
  Gpt2 again(options);
  again.to(torch::kCUDA);
  {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < net.parameters().size(); ++i) {
      again.parameters()[i].copy_(net.parameters()[i]);
    }
  }
  const Batch batch = some_tokens();
  const Computed first = compute(net, batch, torch::kBFloat16);
  const Computed second = compute(net, batch, torch::kBFloat16);
  const Computed recomputed = compute(again, batch, torch::kBFloat16);

  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.loss, recomputed.loss);
  for (size_t i = 0; i < first.gradients.size(); ++i) {
    // cuDNN adds up in the order in which blocks come, so the last bits of attention may differ.
    EXPECT_LT(relative(second.gradients[i], first.gradients[i]), 1e-2);
    EXPECT_LT(relative(recomputed.gradients[i], first.gradients[i]), 1e-2);
  }
}

TEST_F(FusedGpt2, CountsNoTokenWhoseTargetIsBelowZero) {
  Gpt2 net(some_options());
  net.to(torch::kCUDA);
  spread(net);
  Batch batch = some_tokens(2, 40);
  batch.target.narrow(1, 10, 30).fill_(-100);
  const torch::NoGradGuard no_grad;
  const auto loss = [&](std::optional<torch::ScalarType> type) {
    const models::AutocastScope scope(torch::kCUDA, type);
    return net.loss(batch.input, batch.target).item<double>();
  };

  EXPECT_NEAR(loss(torch::kBFloat16), loss(std::nullopt), 0.02);
}

TEST_F(FusedGpt2, TakesWeightsOfSixteenBits) {
  Gpt2 net(some_options());
  net.to(torch::kCUDA);
  spread(net);
  const Batch batch = some_tokens();
  const Computed wanted = compute(net, batch, torch::kBFloat16);
  net.to(torch::kBFloat16);
  const torch::Tensor loss = net.loss(batch.input, batch.target);
  const std::vector<torch::Tensor> gradients = gradients_of(net, loss);

  EXPECT_NEAR(loss.item<double>(), wanted.loss, 1e-2 * wanted.loss);
  for (size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_LT(relative(gradients[i], wanted.gradients[i]), 0.03);
  }
}

TEST_F(FusedGpt2, ScoresMoreRowsThanAreKeptAtATime) {
  Gpt2Options options = some_options();
  options.layers = 1;
  options.context = 512;
  Gpt2 net(options);
  net.to(torch::kCUDA);
  const Batch batch = some_tokens(40, 500);
  const Computed wanted = compute(net, batch, std::nullopt);
  const Computed found = compute(net, batch, torch::kBFloat16);

  EXPECT_NEAR(found.loss, wanted.loss, 5e-3 * wanted.loss);
  for (size_t i = 0; i < wanted.gradients.size(); ++i) {
    EXPECT_LT(relative(found.gradients[i], wanted.gradients[i]), 0.05) << i;
  }
}

}  // namespace
}  // namespace lockstep
