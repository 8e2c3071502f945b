// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/step_model.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/report/least_squares.h"

namespace lockstep::report {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

constexpr StepSeconds kTruth = {0.002, 0.03, 0.05, 0.004};

std::vector<StepTime> weak(const StepSeconds& truth, const std::vector<double>& sizes) {
  std::vector<StepTime> measured;
  for (const double workers : sizes) {
    measured.push_back({workers, 64, step_seconds(truth, workers, 64)});
  }
  return measured;
}

std::vector<StepTime> strong(const StepSeconds& truth, const std::vector<double>& sizes) {
  std::vector<StepTime> measured;
  for (const double workers : sizes) {
    measured.push_back({workers, 1024 / workers, step_seconds(truth, workers, 1024 / workers)});
  }
  return measured;
}

TEST(LeastSquares, FindsTheNearestLine) {
  // 1 + 2x through (1, 3), (2, 5), (3, 7), each row divided by its value.
  const Matrix rows = {{1.0 / 3, 1.0 / 3}, {1.0 / 5, 2.0 / 5}, {1.0 / 7, 3.0 / 7}};

  EXPECT_THAT(*solve_least_squares(rows, std::vector<size_t>{0, 1}),
              ElementsAre(DoubleNear(1, 1e-9), DoubleNear(2, 1e-9)));
  // With b alone: sum(x/y) / sum((x/y)^2).
  const double slope = (1.0 / 3 + 2.0 / 5 + 3.0 / 7) / (1.0 / 9 + 4.0 / 25 + 9.0 / 49);
  EXPECT_THAT(*solve_least_squares(rows, std::vector<size_t>{1}),
              ElementsAre(0, DoubleNear(slope, 1e-9)));
}

TEST(LeastSquares, FindsNothingWhereColumnsAreTheSame) {
  EXPECT_FALSE(solve_least_squares({{1, 2}, {2, 4}, {3, 6}}, std::vector<size_t>{0, 1}));
  EXPECT_FALSE(solve_least_squares({{1, 0}, {2, 0}}, std::vector<size_t>{0, 1}));
}

TEST(LeastSquares, KeepsCoefficientsFromBelowZero) {
  // y = 4 - x at 1, 2, 3: the best fit that does not decrease is a constant.
  const Matrix rows = {{1.0 / 3, 1.0 / 3}, {1.0 / 2, 2.0 / 2}, {1.0 / 1, 3.0 / 1}};

  ASSERT_LT((*solve_least_squares(rows, std::vector<size_t>{0, 1}))[1], 0);
  const double constant = (1.0 / 3 + 1.0 / 2 + 1) / (1.0 / 9 + 1.0 / 4 + 1);
  EXPECT_THAT(solve_nonnegative(rows, std::vector<size_t>{0, 1}),
              ElementsAre(DoubleNear(constant, 1e-9), 0));
}

TEST(StepModel, AddsItsPartsUp) {
  EXPECT_DOUBLE_EQ(step_seconds(kTruth, 8, 64), 0.002 * 64 + 0.03 + 0.05 * 7 / 8 + 0.004 * 3);
  EXPECT_DOUBLE_EQ(step_seconds(kTruth, 1, 10), 0.002 * 10 + 0.03);
}

TEST(StepModel, FindsThePartsThatMadeTheMeasurements) {
  std::vector<StepTime> measured = weak(kTruth, {1, 2, 4, 8, 16});
  for (const StepTime& one : strong(kTruth, {1, 2, 4, 8})) {
    measured.push_back(one);
  }

  const auto model = find_model(measured);
  ASSERT_TRUE(model);
  EXPECT_THAT(model->parts, Pointwise(DoubleNear(1e-7), kTruth));
  EXPECT_EQ(model->sizes, 5);
  EXPECT_LT(model->left_out, 1e-6);
  EXPECT_NEAR(model->seconds(64, 64), step_seconds(kTruth, 64, 64), 1e-6);
  EXPECT_NEAR(model->seconds(64, 16), step_seconds(kTruth, 64, 16), 1e-6);
}

TEST(StepModel, PredictsLargerSizesOfOneKindOfScaling) {
  const StepSeconds bandwidth = {0.002, 0, 0.05, 0};
  const StepSeconds depth = {0.002, 0, 0, 0.01};
  for (const StepSeconds& truth : {bandwidth, depth}) {
    const auto of_weak = find_model(weak(truth, {1, 2, 4, 8}));
    const auto of_strong = find_model(strong(truth, {1, 2, 4, 8}));
    ASSERT_TRUE(of_weak && of_strong);
    EXPECT_NEAR(of_weak->seconds(32, 64), step_seconds(truth, 32, 64), 1e-6);
    EXPECT_NEAR(of_strong->seconds(32, 32), step_seconds(truth, 32, 32), 1e-6);
  }
}

TEST(StepModel, SaysHowFarItIsOff) {
  std::vector<StepTime> measured = weak({0.002, 0, 0, 0}, {1, 2, 4, 8});
  measured[1].seconds *= 1.1;

  // A constant c minimises sum((c/y - 1)^2): c = sum(1/y) / sum(1/y^2), y = 1, 1.1, 1, 1.
  const auto model = find_model(measured);
  ASSERT_TRUE(model);
  const double constant = (3 + 1 / 1.1) / (3 + 1 / 1.21);
  const double off =
      std::sqrt((3 * std::pow(constant - 1, 2) + std::pow(constant / 1.1 - 1, 2)) / 4);
  EXPECT_NEAR(model->residual, off, 1e-9);
  // Leave-one-out: 1.1 predicted from three ones; a one predicted from two ones and 1.1.
  const double others = (2 + 1 / 1.1) / (2 + 1 / 1.21);
  EXPECT_NEAR(model->left_out,
              std::sqrt((std::pow(1 / 1.1 - 1, 2) + 3 * std::pow(others - 1, 2)) / 4),
              1e-9);
  EXPECT_NEAR(model->largest_left_out, others - 1, 1e-9);
  EXPECT_GE(model->error(16, 64), model->left_out);
}

TEST(StepModel, IsWiderWhereItsRivalsDiffer) {
  // Two sizes in addition to 1 cannot distinguish a ring from a tree with certainty.
  std::vector<StepTime> measured = weak({0.002, 0, 0.01, 0}, {2, 3, 4, 6});
  measured[0].seconds *= 1.01;

  const auto model = find_model(measured);
  ASSERT_TRUE(model);
  ASSERT_FALSE(model->rivals.empty());
  EXPECT_GT(model->error(512, 64), model->error(6, 64));
}

TEST(StepModel, IsTrustedAsFarAsItsSizesReach) {
  EXPECT_FALSE(find_model(weak(kTruth, {1, 2})));
  EXPECT_FALSE(find_model({}));
  EXPECT_EQ(find_model(weak(kTruth, {1, 2, 4}))->trusted_workers(), 8);
  EXPECT_EQ(find_model(weak(kTruth, {1, 2, 4, 8}))->trusted_workers(), 32);
  std::vector<StepTime> wild = weak(kTruth, {1, 2, 4, 8});
  wild[1].seconds *= 3;
  EXPECT_EQ(find_model(wild)->trusted_workers(), 8);
}

TEST(StepModel, IsAFormulaToRead) {
  EXPECT_EQ(describe({0.00012, 0.0205, 0, 0.001}),
            "0.00012 s x batch/worker + 0.0205 s + 0.001 s x log2 n");
}

}  // namespace
}  // namespace lockstep::report
