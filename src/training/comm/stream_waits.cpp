// SPDX-License-Identifier: Apache-2.0
#include "training/comm/stream_waits.h"

#include <utility>

namespace lockstep::comm {
namespace {

c10::Stream current(torch::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

void StreamWaits::set_home() {
  const std::lock_guard lock(mutex_);
  home_ = current(device_);
}

void StreamWaits::set_part(Part part) {
  const std::lock_guard lock(mutex_);
  part_ = part;
}

// A call in another stream or on another thread delays the compute stream only when the compute
// stream waits for it. This wait is measured where it happens, so the call itself must not be
// counted. begin() and end() of one pair are in the same part and stream, because the training
// thread changes the part only between the phases of a step.
bool StreamWaits::counts() const {
  return kHasStreamTimes && part_ != Elsewhere && home_ && *home_ == current(device_);
}

void StreamWaits::begin() {
  const std::lock_guard lock(mutex_);
  if (counts() && depth_++ == 0) {
    begun_.emplace(device_);
  }
}

void StreamWaits::end() {
  const std::lock_guard lock(mutex_);
  if (counts() && depth_ > 0 && --depth_ == 0 && begun_) {
    waits_.push_back({*std::exchange(begun_, std::nullopt), StreamMark(device_), part_});
  }
}

void StreamWaits::hand_over() {
  const std::lock_guard lock(mutex_);
  if (counts()) {
    handed_over_.emplace(device_);
  }
}

void StreamWaits::wait_since_hand_over() {
  const std::lock_guard lock(mutex_);
  if (counts() && handed_over_) {
    waits_.push_back({*std::exchange(handed_over_, std::nullopt), StreamMark(device_), part_});
  }
}

// Ends are recorded in the order of waits_ and in one stream, so the GPU passes them in this order:
// the first end that it has not passed stops the loop. is_passed() queries the event and does not
// block.
StreamWaits::Seconds StreamWaits::take() {
  const std::lock_guard lock(mutex_);
  Seconds seconds{};
  while (!waits_.empty() && waits_.front().ended.is_passed()) {
    const Wait& wait = waits_.front();
    seconds[wait.part] += wait.ended.seconds_since(wait.begun);
    waits_.pop_front();
  }
  return seconds;
}

}  // namespace lockstep::comm
