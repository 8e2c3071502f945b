// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "training/strategy/horovod/adasum.h"
#include "training/strategy/horovod/autotune.h"

namespace lockstep::strategy::horovod {
namespace {

using ::testing::HasSubstr;

torch::Tensor exactly(std::vector<double> numbers) {
  return torch::tensor(numbers, torch::dtype(torch::kFloat64));
}

TEST(GaussianProcess, GoesThroughWhatItHasSeenAndDoubtsTheRest) {
  const torch::Tensor seen = exactly({0, 0, 1, 1, 0.5, 0.2}).view({3, 2});
  const torch::Tensor scores = exactly({-1, 1, 0});
  const GaussianProcess model(seen, scores, 1e-6);

  const auto [mean, deviation] = model.predict(seen);
  EXPECT_TRUE(torch::allclose(mean, scores, 0, 1e-3));
  EXPECT_LT(deviation.max().item<double>(), 0.01);
  EXPECT_GT(model.predict(exactly({0, 1}).view({1, 2})).second.item<double>(), 0.1);
}

TEST(GaussianProcess, SmoothsNoisyScores) {
  const torch::Tensor seen = exactly({0.5, 0.5, 0.5, 0.5}).view({2, 2});
  const GaussianProcess model(seen, exactly({-1, 1}), 0.8);
  EXPECT_NEAR(model.predict(seen).first[0].item<double>(), 0, 1e-9);
}

TEST(GaussianProcess, ExpectsTheMaximumWhereScoresRise) {
  const torch::Tensor seen = exactly({0, 0.5, 0.3, 0.5, 0.6, 0.5}).view({3, 2});
  const GaussianProcess model(seen, exactly({-1, 0, 1}), 0.01);
  const torch::Tensor gain =
      model.expected_improvement(exactly({0.05, 0.5, 0.75, 0.5}).view({2, 2}), 1);
  EXPECT_GT(gain[1].item<double>(), gain[0].item<double>());
}

// A fake machine with its maximum throughput at 40 MiB and 5 ms.
double throughput(const Setting& setting) {
  const double fusion = (static_cast<double>(setting.fusion_bytes) / (1 << 20) - 40) / 64;
  const double cycle = (setting.cycle_ms - 5) / 100;
  return 1e9 * std::exp(-4 * fusion * fusion - 8 * cycle * cycle);
}

TEST(Autotune, FindsNearlyTheBestAndKeepsIt) {
  const HorovodOptions options{.fusion_bytes = 1 << 20,
                               .cycle_ms = 60,
                               .autotune_warmup_samples = 3,
                               .autotune_steps_per_sample = 10,
                               .autotune_max_samples = 20,
                               .autotune_noise = 0.1};
  Autotune::Clock::time_point now{};
  Autotune autotune(options, now);
  int steps = 0;
  while (!autotune.is_done() && steps < 1000) {
    // A step of 10 MB.
    now += std::chrono::duration_cast<Autotune::Clock::duration>(
        std::chrono::duration<double>(1e7 / throughput(autotune.setting())));
    autotune.step(10'000'000, now);
    ++steps;
  }

  EXPECT_EQ(steps, (3 + 20) * 10);
  EXPECT_GT(throughput(autotune.setting()), 0.95e9);
  EXPECT_EQ(autotune.step(1, now), std::nullopt);
  EXPECT_THAT(autotune.pinned(), HasSubstr("HOROVOD_FUSION_THRESHOLD="));
  EXPECT_THAT(autotune.pinned(), HasSubstr(" HOROVOD_CYCLE_TIME="));
}

TEST(Autotune, StaysWithinItsBounds) {
  Autotune::Clock::time_point now{};
  Autotune autotune({.autotune_warmup_samples = 0, .autotune_steps_per_sample = 1}, now);
  for (int i = 0; i < 19; ++i) {
    now += std::chrono::milliseconds(1 + i % 3);
    const auto next = autotune.step(1000, now);
    ASSERT_TRUE(next.has_value());
    EXPECT_GE(next->fusion_bytes, 0);
    EXPECT_LE(next->fusion_bytes, 64 << 20);
    EXPECT_GE(next->cycle_ms, 1);
    EXPECT_LE(next->cycle_ms, 100);
  }
}

TEST(Autotune, SaysWhereItCannotWriteItsLog) {
  try {
    Autotune({.autotune_log = "/nowhere/at/all.csv"}, {});
    FAIL() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Io);
    EXPECT_STREQ(error.what(),
                 "cannot write the autotune log /nowhere/at/all.csv\n"
                 "  reason: No such file or directory  (system)\n"
                 "  try:    HOROVOD_AUTOTUNE_LOG=FILE in a directory that exists");
  }
}

TEST(Adasum, AddsOrthogonalVectorsAndAveragesParallelOnes) {
  const torch::Tensor x = exactly({3, 0});
  EXPECT_TRUE(adasum(x, exactly({0, 4})).equal(exactly({3, 4})));
  EXPECT_TRUE(adasum(x, x).equal(x));
  EXPECT_TRUE(torch::allclose(adasum(x, 2 * x), 1.5 * x));
}

TEST(Adasum, TakesTheOtherVectorWhenOneIsZero) {
  const torch::Tensor x = exactly({3, -1});
  EXPECT_TRUE(adasum(x, torch::zeros_like(x)).equal(x));
  EXPECT_TRUE(adasum(torch::zeros_like(x), x).equal(x));
}

TEST(Adasum, PairsNeighboursFirst) {
  const torch::Tensor rows = torch::randn({4, 6}, torch::dtype(torch::kFloat64));
  const torch::Tensor wanted = adasum(adasum(rows[0], rows[1]), adasum(rows[2], rows[3]));
  EXPECT_TRUE(torch::allclose(adasum_tree(rows), wanted));
}

TEST(Adasum, TakesProductsOfSmallNumbersInFloat64) {
  // Squares of 1e-30 vanish in float32.
  const torch::Tensor x = torch::full({2}, 1e-30F);
  EXPECT_TRUE(adasum(x, x).equal(x));
}

}  // namespace
}  // namespace lockstep::strategy::horovod
