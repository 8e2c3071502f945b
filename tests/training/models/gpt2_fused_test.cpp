// SPDX-License-Identifier: Apache-2.0
//
// The fused parts of GPT-2 against libtorch's operators, on a GPU.
#include "training/models/gpt2_fused.h"

#include <cmath>
#include <gmock/gmock.h>

#include "lockstep/error.h"
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

constexpr int64_t kVocabulary = 1003;  // not a multiple of a tile or vector size

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

// Larger weights than the initial ones, so that every part affects the result.
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

  // With 8 significant bits, each rounding has an error of up to half a percent, and both passes
  // round several times.
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
  // A negligible dropout makes the model use the operators of libtorch.
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
    // cuDNN adds in the order in which blocks finish, so the last bits of attention can differ.
    EXPECT_LT(relative(second.gradients[i], first.gradients[i]), 1e-2);
    EXPECT_LT(relative(recomputed.gradients[i], first.gradients[i]), 1e-2);
  }
}

// ---- fp8

class Fp8Gpt2 : public FusedGpt2 {
 protected:
  void SetUp() override {
    FusedGpt2::SetUp();
    if (!IsSkipped() && !models::reason_against_fp8(torch::Device(torch::kCUDA, 0)).empty()) {
      GTEST_SKIP() << "needs a GPU with fp8";
    }
  }
};

Computed compute_fp8(Gpt2& net, const Batch& batch) {
  const models::Fp8Scope fp8;
  return compute(net, batch, torch::kBFloat16);
}

// Returns the result of one pass after `passes` passes over the same batch.
Computed compute_fp8_after(int passes, Gpt2& net, const Batch& batch) {
  for (int i = 0; i < passes; ++i) {
    compute_fp8(net, batch);
  }
  return compute_fp8(net, batch);
}

TEST_F(Fp8Gpt2, HasTheLossAndGradientsOfTheExactOneWithinEightBits) {
  Gpt2 net(some_options());
  net.to(torch::kCUDA);
  spread(net);
  // 16 does not divide the rows of this batch.
  const Batch batch = some_tokens(3, 157);
  const Computed wanted = compute(net, batch, std::nullopt);
  const Computed measuring = compute_fp8(net, batch);
  const Computed found = compute_fp8(net, batch);

  EXPECT_NEAR(measuring.loss, wanted.loss, 5e-3 * wanted.loss);
  EXPECT_NEAR(found.loss, wanted.loss, 2e-2 * wanted.loss);
  const auto names = net.named_parameters();
  for (size_t i = 0; i < wanted.gradients.size(); ++i) {
    // The first pass has no scales yet and computes in bfloat16.
    EXPECT_LT(relative(measuring.gradients[i], wanted.gradients[i]), 0.03) << names[i].key();
    // The mantissa has three bits in activations and weights, and two in gradients.
    EXPECT_LT(relative(found.gradients[i], wanted.gradients[i]), 0.2) << names[i].key();
    EXPECT_GT(relative(found.gradients[i], measuring.gradients[i]), 1e-4) << names[i].key();
  }
}

TEST_F(Fp8Gpt2, HasTheSameBitsTwiceAndWhenComputedAgain) {
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
  const Computed first = compute_fp8_after(5, net, batch);
  const Computed second = compute_fp8(net, batch);
  const Computed recomputed = compute_fp8_after(5, again, batch);

  EXPECT_EQ(first.loss, second.loss);
  for (size_t i = 0; i < first.gradients.size(); ++i) {
    EXPECT_TRUE(first.gradients[i].equal(second.gradients[i]));
    EXPECT_LT(relative(recomputed.gradients[i], first.gradients[i]), 1e-2);
  }
}

TEST_F(Fp8Gpt2, EvaluatesWithoutChangingWhatIsTrained) {
  Gpt2 net(some_options());
  net.to(torch::kCUDA);
  spread(net);
  const Batch batch = some_tokens();
  const Batch other = some_tokens();
  const auto evaluate = [&] {
    const torch::NoGradGuard no_grad;
    const models::Fp8Scope fp8;
    const models::AutocastScope scope(torch::kCUDA, torch::kBFloat16);
    net.eval();
    const double loss = net.loss(other.input, other.target).item<double>();
    net.train();
    return loss;
  };
  const double before = evaluate();
  const Computed first = compute_fp8_after(5, net, batch);
  const double after = evaluate();
  const Computed second = compute_fp8(net, batch);

  EXPECT_NEAR(after, before, 2e-2 * before);
  for (size_t i = 0; i < first.gradients.size(); ++i) {
    EXPECT_TRUE(first.gradients[i].equal(second.gradients[i]));
  }
}

TEST_F(Fp8Gpt2, KeepsTheScalesOfAPassUntilItsBackward) {
  Gpt2 net(some_options());
  net.to(torch::kCUDA);
  spread(net);
  const Batch batch = some_tokens();
  const Computed wanted = compute_fp8_after(5, net, batch);
  torch::Tensor loss;
  {
    const models::Fp8Scope fp8;
    const models::AutocastScope scope(torch::kCUDA, torch::kBFloat16);
    loss = net.loss(batch.input, batch.target);
  }
  // Passes with larger weights have other scales. Backward uses the fp8 copies of the old weights
  // and must not be affected by the change.
  for (const auto& parameter : net.named_parameters()) {
    if (parameter.key().find(".h.") != std::string::npos && parameter.value().dim() == 2) {
      parameter.value().variable_data().mul_(16);
    }
  }
  compute_fp8_after(1, net, batch);
  const std::vector<torch::Tensor> gradients = gradients_of(net, loss);

  for (size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_LT(relative(gradients[i], wanted.gradients[i]), 1e-2);
  }
}

TEST_F(Fp8Gpt2, TakesWeightsOfSixteenBits) {
  Gpt2 net(some_options());
  net.to(torch::kCUDA);
  spread(net);
  const Batch batch = some_tokens();
  const Computed wanted = compute_fp8_after(3, net, batch);
  net.to(torch::kBFloat16);
  const Computed found = compute_fp8(net, batch);

  EXPECT_NEAR(found.loss, wanted.loss, 1e-2 * wanted.loss);
  for (size_t i = 0; i < found.gradients.size(); ++i) {
    EXPECT_LT(relative(found.gradients[i], wanted.gradients[i]), 0.2);
  }
}

TEST_F(Fp8Gpt2, TrainsAsBfloat16Does) {
  const auto last_loss = [](bool fp8) {
    torch::manual_seed(5);
    Gpt2 net(some_options());
    net.to(torch::kCUDA);
    const Batch batch = some_tokens(8, 128);
    torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(1e-3));
    double loss = 0;
    for (int step = 0; step < 60; ++step) {
      loss = fp8 ? compute_fp8(net, batch).loss : compute(net, batch, torch::kBFloat16).loss;
      optimizer.step();
    }
    return loss;
  };
  const double bf16 = last_loss(false);
  const double fp8 = last_loss(true);

  EXPECT_LT(bf16, 6);
  EXPECT_NEAR(fp8, bf16, 0.1);
}

TEST_F(Fp8Gpt2, RefusesWhatItCannotCompute) {
  const auto use = [](const Gpt2Options& options) {
    Gpt2 net(options);
    net.to(torch::kCUDA);
    const models::Fp8Scope fp8;
    const models::AutocastScope scope(torch::kCUDA, torch::kBFloat16);
    const Batch batch = some_tokens(1, 16);
    net.loss(batch.input, batch.target);
  };
  Gpt2Options dropping = some_options();
  dropping.dropout = 0.1;
  Gpt2Options odd = some_options();
  odd.width = 264;
  odd.heads = 3;

  EXPECT_THAT([&] { use(dropping); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr(
                  "cannot compute this GPT-2 in fp8\n  reason: dropout 0.1 is not supported")));
  EXPECT_THAT([&] { use(odd); },
              ::testing::ThrowsMessage<Error>(
                  ::testing::HasSubstr("width 264 is not a multiple of 16 up to 8192")));
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
