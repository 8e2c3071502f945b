// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <exception>
#include <optional>
#include <torch/torch.h>

namespace lockstep::comm {

// A queue of work on a GPU beside the one that this thread fills, so that messages travel while
// something is computed. Speaks to the device through libtorch alone: compiles without CUDA.
class SideStream {
 public:
  explicit SideStream(torch::Device device)
      : device_(device),
        stream_(c10::impl::VirtualGuardImpl(device.type())
                    .getStreamFromGlobalPool(device, /*isHighPriority=*/true)) {}

  torch::Device device() const { return device_; }
  c10::Stream stream() const { return stream_; }

  // What is queued here from now on begins when all that this thread has queued so far is done.
  void follow() const {
    c10::Event event(device_.type());
    event.record(current());
    event.block(stream_);
  }

  // What this thread queues from now on begins when all that is queued here so far is done.
  void let_follow() const {
    c10::Event event(device_.type());
    event.record(stream_);
    event.block(current());
  }

  // While the result lives, this thread queues here.
  [[nodiscard]] c10::StreamGuard enter() const { return c10::StreamGuard(stream_); }

 private:
  c10::Stream current() const {
    return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  }

  torch::Device device_;
  c10::Stream stream_;
};

// While it lives, this thread queues on another stream, after all that it has queued before; what
// it queues later comes after all that is queued here.
class OnSideStream {
 public:
  explicit OnSideStream(const SideStream& side) : side_(side) {
    side_.follow();
    guard_.emplace(side_.stream());
  }
  OnSideStream(const OnSideStream&) = delete;
  OnSideStream& operator=(const OnSideStream&) = delete;
  ~OnSideStream() {
    guard_.reset();
    try {
      side_.let_follow();
    } catch (const std::exception&) {
      // The GPU has failed, and whoever asks it next is told.
    }
  }

 private:
  SideStream side_;
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace lockstep::comm
