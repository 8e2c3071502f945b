// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

// How long a step takes on how many workers, docs/scaling.md.
namespace lockstep::report {

struct StepTime {
  double workers = 1;
  double batch = 1;  // samples per worker
  double seconds = 0;
};

// The parts of a step of n workers with b samples each; the order is that of `seconds_of`.
enum class StepPart {
  Sample,  // x b: forward and backward
  Fixed,   // x 1: what every step costs, the optimizer for one
  Volume,  // x (n - 1) / n: the bytes that a ring of n sends, by its bandwidth
  Depth,   // x log2(n): rounds of messages, and waiting for the last of n
};
inline constexpr size_t kStepParts = 4;
using StepSeconds = std::array<double, kStepParts>;  // none below 0

double step_seconds(const StepSeconds& parts, double workers, double batch);

struct StepModel {
  StepSeconds parts = {};
  // Other combinations of parts that fit the measurements about as well.
  std::vector<StepSeconds> rivals = {};
  int sizes = 0;                // different numbers of workers
  double largest = 0;           // of them
  double residual = 0;          // relative, root mean square
  double left_out = 0;          // the same for each measurement, by a model of the others
  double largest_left_out = 0;  // of the largest size alone, by a model of the smaller ones

  double seconds(double workers, double batch) const { return step_seconds(parts, workers, batch); }

  // How wrong `seconds` may be, as a share of it: as far as measurements that were left out were
  // missed, or as far as rivals differ, whichever is more.
  double error(double workers, double batch) const;

  // Up to how many workers predictions are worth something: twice the largest that was measured
  // with three sizes, four times with more; no further than measured where `left_out` is beyond a
  // fifth.
  double trusted_workers() const;
};

inline constexpr int kLeastSizes = 3;

// The model with the fewest parts that predicts left-out measurements best, by least squares of
// relative errors with no part below 0. Nothing with less than kLeastSizes numbers of workers. The
// measurements differ in workers or batch.
std::optional<StepModel> find_model(std::span<const StepTime> measured);

// "0.021 s + 0.00012 s x batch/worker + 0.004 s x (n-1)/n + 0.0011 s x log2 n"
std::string describe(const StepSeconds& parts);

}  // namespace lockstep::report
