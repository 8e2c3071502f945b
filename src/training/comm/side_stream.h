// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <exception>
#include <optional>
#include <torch/types.h>

namespace lockstep::comm {

// A second stream of a GPU for messages, so that they overlap with the computation in the current
// stream. Uses only device-independent interfaces of libtorch and compiles without CUDA.
class SideStream {
 public:
  explicit SideStream(torch::Device device)
      : device_(device),
        stream_(c10::impl::VirtualGuardImpl(device.type())
                    .getStreamFromGlobalPool(device, /*isHighPriority=*/true)) {}

  torch::Device device() const { return device_; }
  c10::Stream stream() const { return stream_; }

  // Work queued on this stream from now on starts after all work that the current stream holds now.
  void follow() const {
    c10::Event event(device_.type());
    event.record(current());
    event.block(stream_);
  }

  // Work queued on the current stream from now on starts after all work that this stream holds now.
  void let_follow() const {
    c10::Event event(device_.type());
    event.record(stream_);
    event.block(current());
  }

  // This stream is current during the lifetime of the result.
  [[nodiscard]] c10::StreamGuard enter() const { return c10::StreamGuard(stream_); }

 private:
  c10::Stream current() const {
    return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  }

  torch::Device device_;
  c10::Stream stream_;
};

// RAII: makes `side` the current stream. Its work starts after the work queued before; work queued
// after the end of the lifetime starts after the work queued within it.
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
      // The GPU has failed. The next operation on it reports the error.
    }
  }

 private:
  SideStream side_;
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace lockstep::comm
