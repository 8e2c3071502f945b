// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <torch/types.h>

#include "lockstep/communicator.h"

namespace lockstep {

// Accumulates loss and accuracy without waiting for the GPU. After all_reduce(), the results are
// exact over all workers, even if workers have different numbers of samples.
//
//   Meter meter;
//   while (const auto batch = loader.next()) {
//     const Loss loss = ...;
//     meter.add(loss.value, batch->size());
//     meter.add_scores(loss.scores, batch->target);
//   }
//   meter.all_reduce(session.communicator());
//   session.say("loss " + std::to_string(meter.loss()));
//
// The sums stay on the device of the first added tensor, in float64. Reading a result (loss(),
// accuracy(), top5(), correct()) waits for the GPU. A Meter is a value; use it from one thread.
class Meter {
 public:
  // Adds the mean loss of `samples` samples.
  void add(const torch::Tensor& mean_loss, int64_t samples);

  // Counts the rows of `scores` [N, classes] whose maximum is at `target` [N]. With `with_top5` and
  // more than five classes, also counts the rows whose target is among the five highest scores. Of
  // equal scores, the first counts as higher.
  void add_scores(const torch::Tensor& scores, const torch::Tensor& target, bool with_top5 = false);

  // Replaces all sums by their total over all workers. Every worker must call it, including
  // workers that have counted nothing.
  void all_reduce(Communicator& communicator);

  // Adds the sums of another Meter of this worker.
  void merge(const Meter& other);

  // Resets all sums to zero.
  void reset();

  // The counts of this worker, or of all workers after all_reduce().
  int64_t samples() const { return samples_; }  // counted by add()
  int64_t scored() const { return scored_; }    // counted by add_scores()
  double correct() const;                       // of the scored samples

  // Returns the sum of loss * samples and the number of correct samples as float64 [2], on the
  // device on which they were counted. Does not wait for the GPU.
  torch::Tensor sums() const;

  // Mean loss over all samples; 0 without samples.
  double loss() const;

  // Fractions of the scored samples; absent if no samples were scored.
  std::optional<double> accuracy() const;
  std::optional<double> top5() const;

 private:
  torch::Tensor loss_sum_;  // float64, on the CPU or on the GPU
  torch::Tensor correct_;
  torch::Tensor correct5_;
  int64_t samples_ = 0;
  int64_t scored_ = 0;
  int64_t scored5_ = 0;
};

// Measures samples per second since the first call of add().
//
//   Throughput throughput;
//   throughput.add(0);  // starts the clock
//   ...
//   throughput.add(batch.size());
//   const double samples_per_second = throughput.rate();
class Throughput {
 public:
  using Clock = std::chrono::steady_clock;

  // Counts samples that were completed at `now`. The first call only starts the clock; its samples
  // are not counted.
  void add(int64_t samples, Clock::time_point now = Clock::now());

  // Excludes `time` from the measurement, for example the duration of a validation.
  void pause(Clock::duration time) {
    start_ += time;
    last_ += time;
  }

  // Samples per second between the first and the last add(); 0 before the second one.
  double rate() const;

 private:
  std::optional<Clock::time_point> begun_;
  Clock::time_point start_{};
  Clock::time_point last_{};
  int64_t samples_ = 0;
};

}  // namespace lockstep
