// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <torch/torch.h>

#include "comm/stream_mark.h"

namespace lockstep::train {

// Where the time of a GPU goes, by marks in the stream that computes, which are looked at when the
// GPU has passed them. Of steps that are queued within 2 ms only some are marked, and stand for the
// others.
class StreamTimes {
 public:
  explicit StreamTimes(torch::Device device) : device_(device) {}

  // Behind the arrival of its batch; before the update, unless that cannot be told apart; behind
  // all of it.
  void begin_step();
  void begin_update();
  void end_step();

  // What comes before the next step is not for want of work.
  void pause() { before_.reset(); }

  struct Seconds {
    double idle = 0;  // between one step and the next
    double compute = 0;
    double update = 0;
  };

  // Of the steps that the GPU has done since the last call. Where it has done them all, those that
  // were not marked took as long as the last that was.
  Seconds take(bool are_all_done);

 private:
  using Clock = std::chrono::steady_clock;
  using MarkPtr = std::shared_ptr<comm::StreamMark>;

  struct Step {
    MarkPtr before;  // the end of the step before; null: not known
    MarkPtr begun;
    MarkPtr update;  // null: not told apart
    MarkPtr ended;
    int64_t stands_for = 1;
  };

  // Of one such step.
  static Seconds seconds_of(const Step& step);

  MarkPtr mark() const { return std::make_shared<comm::StreamMark>(device_); }

  torch::Device device_;
  bool is_marked_ = false;  // the step under way
  bool is_next_ = true;     // the next one shall be
  int64_t unmarked_ = 0;
  MarkPtr before_;
  Step step_;
  Seconds told_;  // of the last step that take() has looked at
  Clock::time_point last_ = {};
  std::deque<Step> steps_;
};

}  // namespace lockstep::train
