// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <chrono>
#include <deque>
#include <thread>
#include <torch/types.h>

namespace lockstep::train {

// Waits until the GPU has completed all work that was queued before `event` was recorded; later
// work is not waited for. It polls because c10::Event has no blocking wait in libtorch 1.13.
inline void wait_for(const c10::Event& event) {
  while (!event.query()) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

// Records an event on the current stream.
inline c10::Event record_event(torch::Device device) {
  c10::Event event(device.type());
  event.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

// Limits how far the host runs ahead of the GPU. The host queues steps faster than the GPU executes
// them, and each queued step holds the memory of its batch. A lead of a few steps keeps the GPU
// busy; more would only increase memory.
class RunAhead {
 public:
  explicit RunAhead(torch::Device device) : device_(device) {}

  // Call after each step. Blocks while more than kSteps steps are queued.
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
