// SPDX-License-Identifier: Apache-2.0
#include "lockstep/deepspeed_schedule.h"

#include <gmock/gmock.h>
#include <utility>
#include <vector>

#include "lockstep/error.h"

namespace lockstep {
namespace {

// The tables were computed by a Python script with the formulas of the classes of DeepSpeed and
// last_batch_iteration = step - 1. It shares no code with lockstep.
using Table = std::vector<std::pair<int64_t, double>>;

void expect_rates(const Schedule& schedule, const Table& table) {
  for (const auto& [step, rate] : table) {
    EXPECT_NEAR(schedule.rate(step, 123), rate, 1e-12) << "step " << step;
  }
}

TEST(WarmupLr, RisesByLogarithmByDefault) {
  expect_rates(warmup_lr({.min_lr = 0.0001, .max_lr = 0.01, .warmup_steps = 10}),
               {{0, 0.0001},
                {1, 0.0001},
                {2, 0.00308019695707},
                {3, 0.00482350042172},
                {5, 0.00701980304293},
                {8, 0.00904059087122},
                {10, 0.01},
                {11, 0.01},
                {25, 0.01}});
  expect_rates(warmup_lr({.max_lr = 0.001, .warmup_steps = 10, .is_linear = true}),
               {{0, 0},
                {1, 0},
                {2, 0.0001},
                {3, 0.0002},
                {5, 0.0004},
                {8, 0.0007},
                {10, 0.0009},
                {11, 0.001},
                {25, 0.001}});
}

TEST(WarmupLr, TakesAtLeastTwoSteps) {
  expect_rates(warmup_lr({.max_lr = 1, .warmup_steps = 0}), {{0, 0}, {1, 0}, {2, 1}, {3, 1}});
}

TEST(WarmupDecayLr, FallsInAStraightLine) {
  expect_rates(warmup_decay_lr({.min_lr = 0.001, .max_lr = 0.1, .warmup_steps = 10}, 20),
               {{0, 0.001},
                {1, 0.001},
                {2, 0.0308019695707},
                {3, 0.0482350042172},
                {5, 0.0701980304293},
                {8, 0.0904059087122},
                {10, 0.1},
                {11, 0.1},
                {12, 0.0901},
                {15, 0.0604},
                {20, 0.0109},
                {25, 0.001}});
}

TEST(WarmupCosineLr, IsAFactorOfTheBaseRate) {
  const Table table = {{0, 0},
                       {1, 0.1},
                       {2, 0.370926996098},
                       {3, 0.529409129248},
                       {5, 0.729073003902},
                       {8, 0.912780988293},
                       {10, 1},
                       {11, 0.975772975566},
                       {12, 0.905463412216},
                       {15, 0.505},
                       {20, 0.01},
                       {25, 0.505}};
  const Schedule schedule = warmup_cosine_lr(
      {.total_steps = 20, .warmup_steps = 10, .warmup_min_ratio = 0.1, .cos_min_ratio = 0.01});
  for (const auto& [step, factor] : table) {
    EXPECT_NEAR(schedule.rate(step, 2), 2 * factor, 1e-11) << "step " << step;
  }
  const Schedule linear =
      warmup_cosine_lr({.total_steps = 20, .warmup_steps = 8, .is_linear = true});
  EXPECT_NEAR(linear.factor(5), 0.5, 1e-12);
  EXPECT_NEAR(linear.factor(10), 0.933019400622, 1e-12);
  EXPECT_NEAR(linear.factor(15), 0.370653418401, 1e-12);
  EXPECT_NEAR(linear.factor(20), 0.0001, 1e-12);
}

TEST(WarmupCosineLr, RefusesToFallInNoStep) {
  EXPECT_THAT(
      [] { warmup_cosine_lr({.total_steps = 10, .warmup_steps = 10}); },
      ::testing::ThrowsMessage<Error>("WarmupCosineLR needs more total steps than warm-up steps\n"
                                      "  total_num_steps:  10\n"
                                      "  warmup_num_steps: 10\n"
                                      "  try:              \"total_num_steps\" above 10"));
}

TEST(OneCycle, GoesUpAndDownAndDecays) {
  const Schedule schedule = one_cycle({.min_lr = 0.01,
                                       .max_lr = 0.1,
                                       .decay_lr_rate = 0.5,
                                       .first_steps = 5,
                                       .second_steps = 8,
                                       .decay_steps = 4,
                                       .decay_momentum_rate = 0.1});
  expect_rates(schedule,
               {{0, 0.01},
                {1, 0.028},
                {2, 0.046},
                {3, 0.064},
                {5, 0.1},
                {8, 0.06625},
                {10, 0.04375},
                {11, 0.0325},
                {12, 0.02125},
                {15, 0.008},
                {20, 0.0160 / 3},
                {25, 0.004}});
  const Table momentum = {{0, 0.8},
                          {1, 0.88},
                          {2, 0.86},
                          {3, 0.84},
                          {5, 0.8},
                          {8, 0.8375},
                          {10, 0.8625},
                          {12, 0.8875},
                          {15, 0.945},
                          {20, 1.0575}};
  for (const auto& [step, beta] : momentum) {
    EXPECT_NEAR(schedule.betas(step)->first, beta, 1e-12) << "step " << step;
    EXPECT_EQ(schedule.betas(step)->second, 0.99);
  }
}

TEST(OneCycle, StaysWhereItEndsWithoutDecay) {
  const Schedule schedule = one_cycle({.min_lr = 0.01, .max_lr = 0.1, .first_steps = 5});
  expect_rates(schedule, {{0, 0.01}, {5, 0.1}, {8, 0.046}, {10, 0.01}, {11, 0.01}, {25, 0.01}});
  EXPECT_NEAR(schedule.betas(8)->first, 0.86, 1e-12);
  EXPECT_NEAR(schedule.betas(10)->first, 0.9, 1e-12);
  EXPECT_NEAR(schedule.betas(25)->first, 0.9, 1e-12);
  EXPECT_FALSE(
      one_cycle({.min_lr = 0.01, .max_lr = 0.1, .cycles_momentum = false}).betas(3).has_value());
}

TEST(LrRangeTest, RisesWithoutEnd) {
  expect_rates(lr_range_test({.min_lr = 0.001, .step_size = 4, .step_rate = 2}),
               {{0, 0.001}, {1, 0.0015}, {3, 0.0025}, {8, 0.005}, {25, 0.0135}});
  expect_rates(
      lr_range_test({.min_lr = 0.001, .step_size = 4, .step_rate = 2, .is_staircase = true}),
      {{0, 0.001}, {3, 0.001}, {5, 0.003}, {11, 0.005}, {12, 0.007}, {25, 0.013}});
}

}  // namespace
}  // namespace lockstep
