// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <torch/types.h>

#include "training/comm/stream_mark.h"

namespace lockstep::train {

// Measures how a GPU spends its time with marks (CUDA events) in the compute stream. A mark is read
// only after the GPU has passed it, so that the host never waits:
//
//   ... | before | ... idle ... | begun | forward, backward | update | optimizer | ended | ...
//
// Steps shorter than 2 ms are sampled: a marked step represents all unmarked steps since the
// previous marked one (stands_for).
class StreamTimes {
 public:
  explicit StreamTimes(torch::Device device) : device_(device) {}

  // Call begin_step() after the batch has been copied to the GPU, begin_update() before the
  // optimizer update, and end_step() after it. begin_update() is omitted if the update is not
  // separate, as in a CUDA graph.
  void begin_step();
  void begin_update();
  void end_step();

  // Excludes the time until the next step from the idle time.
  void pause() { before_.reset(); }

  struct Seconds {
    double idle = 0;  // between one step and the next
    double compute = 0;
    double update = 0;
  };

  // Returns the sums over the steps that the GPU has completed since the last call. With
  // `are_all_done`, the GPU has completed all steps; unmarked steps then count like the last marked
  // one.
  Seconds take(bool are_all_done);

 private:
  using Clock = std::chrono::steady_clock;
  using MarkPtr = std::shared_ptr<comm::StreamMark>;

  struct Step {
    MarkPtr before;  // the end of the previous step; null: unknown
    MarkPtr begun;
    MarkPtr update;  // null: not separate
    MarkPtr ended;
    int64_t stands_for = 1;
  };

  // The times of one marked step.
  static Seconds seconds_of(const Step& step);

  MarkPtr mark() const { return std::make_shared<comm::StreamMark>(device_); }

  torch::Device device_;
  bool is_marked_ = false;  // the current step is marked
  bool is_next_ = true;     // the next step will be marked
  int64_t unmarked_ = 0;
  MarkPtr before_;
  Step step_;
  Seconds reported_;  // of the last step that take() has read
  Clock::time_point last_ = {};
  std::deque<Step> steps_;
};

}  // namespace lockstep::train
