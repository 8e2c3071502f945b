// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <torch/torch.h>

#include "lockstep/communicator.h"

namespace lockstep {

// Loss and accuracy, added up without waiting for the device; exact over a gang.
class Meter {
 public:
  // Counts the mean loss of `samples` samples.
  void add(const torch::Tensor& mean_loss, int64_t samples);

  // Counts how many of `scores` [N, classes] are highest at `target` [N]; if asked, and among more
  // than five classes, also how many are one of the five highest. The first of equals is higher.
  void add_scores(const torch::Tensor& scores, const torch::Tensor& target, bool with_top5 = false);

  // Adds up over the gang. Every worker must call it, also one that counted nothing.
  void all_reduce(Communicator& communicator);

  // Adds what another Meter of this worker has counted.
  void merge(const Meter& other);

  // Begins anew.
  void reset();

  int64_t samples() const { return samples_; }
  int64_t scored() const { return scored_; }
  double correct() const;

  // Loss times samples, and correct, as float64 [2] where they were counted.
  torch::Tensor sums() const;

  double loss() const;
  std::optional<double> accuracy() const;
  std::optional<double> top5() const;

 private:
  torch::Tensor loss_sum_;  // double, on the CPU or the device
  torch::Tensor correct_;
  torch::Tensor correct5_;
  int64_t samples_ = 0;
  int64_t scored_ = 0;
  int64_t scored5_ = 0;
};

// Samples per second since the first call of add(), and lately.
class Throughput {
 public:
  using Clock = std::chrono::steady_clock;

  // Counts samples that were finished at `now`. The first call only starts the clock.
  void add(int64_t samples, Clock::time_point now = Clock::now());

  // Takes time out that was not spent on samples (validation, say).
  void pause(Clock::duration time) {
    start_ += time;
    last_ += time;
  }

  double rate() const;

 private:
  std::optional<Clock::time_point> begun_;
  Clock::time_point start_{};
  Clock::time_point last_{};
  int64_t samples_ = 0;
};

}  // namespace lockstep
