// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <chrono>
#include <deque>
#include <thread>
#include <torch/torch.h>

namespace lockstep::train {

// Waits until what was queued on a GPU before `event` was recorded is done. Nothing that was queued
// later is waited for. libtorch 1.13 can only be asked whether it is.
inline void wait_for(const c10::Event& event) {
  while (!event.query()) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

// Now, on the stream that is current.
inline c10::Event record_event(torch::Device device) {
  c10::Event event(device.type());
  event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

// The host queues steps faster than a GPU does them, and each holds its batch: it stays a few
// ahead, so that the GPU never waits, and no more, so that memory is enough.
class RunAhead {
 public:
  explicit RunAhead(torch::Device device) : device_(device) {}

  // After each step.
  void step() {
    constexpr size_t kSteps = 8;
    ends_.push_back(record_event(device_));
    if (ends_.size() > kSteps) {
      wait_for(ends_.front());
      ends_.pop_front();
    }
  }

 private:
  torch::Device device_;
  std::deque<c10::Event> ends_;
};

}  // namespace lockstep::train
