// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <torch/types.h>
#include <utility>
#include <vector>

#include "lockstep/strategy.h"

namespace lockstep::strategy::horovod {

// A Gaussian process with a squared-exponential kernel over points in the unit square. Its length
// scale is the most likely one of a few candidates. Everything is computed in float64.
class GaussianProcess {
 public:
  // `points` [n, 2], `scores` [n] with mean 0 and standard deviation 1; `noise` is the variance of
  // a score.
  GaussianProcess(torch::Tensor points, torch::Tensor scores, double noise);

  // Mean and standard deviation at each of `points` [m, 2].
  std::pair<torch::Tensor, torch::Tensor> predict(const torch::Tensor& points) const;

  // Expected improvement over `best` at each point.
  torch::Tensor expected_improvement(const torch::Tensor& points, double best) const;

 private:
  void fit(double length);

  torch::Tensor points_;
  torch::Tensor scores_;
  double noise_;
  double length_ = 0;
  torch::Tensor factor_;   // Cholesky factor of the covariance
  torch::Tensor weights_;  // covariance^-1 x scores
  double likelihood_ = 0;
};

struct Setting {
  int64_t fusion_bytes = 0;
  double cycle_ms = 0;
};

// Searches for the size of the fusion buffer (0-64 MiB) and the cycle time (1-100 ms) with the
// highest throughput while training runs: a few steps with each candidate, the next one chosen by
// expected improvement.
class Autotune {
 public:
  using Clock = std::chrono::steady_clock;

  // Throws an Error (74) if the log cannot be created.
  Autotune(const HorovodOptions& options, Clock::time_point now);

  // Must be called after each step, with the number of bytes that it reduced. Returns the new
  // setting if it changes.
  std::optional<Setting> step(int64_t bytes, Clock::time_point now);

  bool is_done() const { return is_done_; }
  const Setting& setting() const { return setting_; }

  // "HOROVOD_FUSION_THRESHOLD=... HOROVOD_CYCLE_TIME=...": the variables that reproduce the result.
  std::string pinned() const;

 private:
  Setting next();

  HorovodOptions options_;
  Setting setting_;
  std::mt19937 chance_{20};
  int warmup_left_;
  int steps_ = 0;
  int64_t bytes_ = 0;
  Clock::time_point since_;
  std::vector<Setting> tried_;
  std::vector<double> scores_;
  std::ofstream log_;
  bool is_done_ = false;
};

}  // namespace lockstep::strategy::horovod
