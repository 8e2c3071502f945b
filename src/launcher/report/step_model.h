// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

// A model of the step time as a function of the number of workers (docs/scaling.md).
namespace lockstep::report {

struct StepTime {
  double workers = 1;
  double batch = 1;  // samples per worker
  double seconds = 0;
};

// The parts of a step of n workers with b samples each, in the order of StepSeconds.
enum class StepPart {
  Sample,  // x b: forward and backward
  Fixed,   // x 1: fixed cost of a step, such as the optimizer
  Volume,  // x (n - 1) / n: the bytes that a ring of n sends, divided by its bandwidth
  Depth,   // x log2(n): rounds of messages, and waiting for the slowest of n
};
inline constexpr size_t kStepParts = 4;
using StepSeconds = std::array<double, kStepParts>;  // all non-negative

double step_seconds(const StepSeconds& parts, double workers, double batch);

struct StepModel {
  StepSeconds parts = {};
  // Other combinations of parts that fit the measurements about as well.
  std::vector<StepSeconds> rivals = {};
  int sizes = 0;                // number of different worker counts
  double largest = 0;           // the largest worker count
  double residual = 0;          // relative error at the measurements, root mean square
  double left_out = 0;          // the same for leave-one-out predictions
  double largest_left_out = 0;  // error of the largest size, predicted from all others

  double seconds(double workers, double batch) const { return step_seconds(parts, workers, batch); }

  // The estimated relative error of `seconds`: the maximum of the leave-one-out error, the residual
  // and the difference to the rivals.
  double error(double workers, double batch) const;

  // The number of workers up to which predictions are reliable: twice the largest measured size
  // with three sizes, four times with more; the largest size itself if `left_out` exceeds a fifth.
  double trusted_workers() const;
};

inline constexpr int kMinSizes = 3;

// The model that predicts left-out measurements best with few parts, by non-negative least squares
// of relative errors. Nothing with fewer than kMinSizes worker counts. The measurements must
// differ in workers or batch.
std::optional<StepModel> find_model(std::span<const StepTime> measured);

// "0.021 s + 0.00012 s x batch/worker + 0.004 s x (n-1)/n + 0.0011 s x log2 n"
std::string describe(const StepSeconds& parts);

}  // namespace lockstep::report
