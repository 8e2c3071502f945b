// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/stream_times.h"

#include <utility>

namespace lockstep::train {
namespace {

// A mark costs the GPU some microseconds. Steps shorter than this are sampled.
constexpr std::chrono::milliseconds kMinInterval{2};

}  // namespace

// A marked step stands for itself and the unmarked steps before it: their times are assumed to be
// equal. The decision about the next step is made at the end of the previous one, because its idle
// time begins there.
void StreamTimes::begin_step() {
  is_marked_ = std::exchange(is_next_, false);
  if (!is_marked_) {
    return;
  }
  last_ = Clock::now();
  step_ = {.before = std::exchange(before_, nullptr),
           .begun = mark(),
           .update = nullptr,
           .ended = nullptr,
           .stands_for = std::exchange(unmarked_, 0) + 1};
}

void StreamTimes::begin_update() {
  if (is_marked_) {
    step_.update = mark();
  }
}

// If the next step will be marked, the idle time before it begins at the end of this step: at its
// end mark, or at an additional mark if this step has none.
void StreamTimes::end_step() {
  MarkPtr end;
  if (is_marked_) {
    end = mark();
    step_.ended = end;
    steps_.push_back(std::exchange(step_, {}));
  } else {
    ++unmarked_;
  }
  is_marked_ = false;
  is_next_ = Clock::now() - last_ >= kMinInterval;
  if (is_next_) {
    before_ = end != nullptr ? end : mark();
  }
}

StreamTimes::Seconds StreamTimes::seconds_of(const Step& step) {
  const comm::StreamMark& computed = *(step.update != nullptr ? step.update : step.ended);
  return {.idle = step.before != nullptr ? step.begun->seconds_since(*step.before) : 0,
          .compute = computed.seconds_since(*step.begun),
          .update = step.ended->seconds_since(computed)};
}

// Steps complete in order, so the loop stops at the first mark that the GPU has not passed.
StreamTimes::Seconds StreamTimes::take(bool are_all_done) {
  Seconds sum;
  const auto add = [&](int64_t steps) {
    const auto weight = static_cast<double>(steps);
    sum.idle += weight * reported_.idle;
    sum.compute += weight * reported_.compute;
    sum.update += weight * reported_.update;
  };
  while (!steps_.empty() && steps_.front().ended->is_passed()) {
    reported_ = seconds_of(steps_.front());
    add(steps_.front().stands_for);
    steps_.pop_front();
  }
  if (are_all_done) {
    add(std::exchange(unmarked_, 0));
  }
  return sum;
}

}  // namespace lockstep::train
