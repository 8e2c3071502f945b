// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <torch/torch.h>
#include <utility>
#include <vector>

#include "lockstep/strategy.h"

namespace lockstep::strategy::horovod {

// A Gaussian process with a squared-exponential kernel over points in the unit square; its length
// is the likeliest of a few. All in float64.
class GaussianProcess {
 public:
  // `points` [n, 2], `scores` [n] of mean 0 and deviation 1; `noise` is the variance of a score.
  GaussianProcess(torch::Tensor points, torch::Tensor scores, double noise);

  // Mean and deviation at each of `points` [m, 2].
  std::pair<torch::Tensor, torch::Tensor> predict(const torch::Tensor& points) const;

  // How much better than `best` each point can be expected to be.
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

// Looks for the fusion buffer (0-64 MiB) and the cycle (1-100 ms) that move most bytes in a second,
// while training goes on: a few steps with each candidate, the next chosen by expected improvement.
class Autotune {
 public:
  using Clock = std::chrono::steady_clock;

  // Throws an Error (74) when the log cannot be made.
  Autotune(const HorovodOptions& options, Clock::time_point now);

  // After each step, with the bytes that it has moved; returns what shall hold from now on if that
  // changes.
  std::optional<Setting> step(int64_t bytes, Clock::time_point now);

  bool is_done() const { return is_done_; }
  const Setting& setting() const { return setting_; }

  // "HOROVOD_FUSION_THRESHOLD=... HOROVOD_CYCLE_TIME=...", to pin what was found.
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
