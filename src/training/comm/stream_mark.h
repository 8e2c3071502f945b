// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>
#include <torch/version.h>

namespace lockstep::comm {

// Whether this libtorch can measure the time between two events on a GPU.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 6)
inline constexpr bool kHasStreamTimes = true;
#else
inline constexpr bool kHasStreamTimes = false;
#endif

// A position in the current stream, recorded at construction. The GPU passes it when it has done
// all work queued before.
class StreamMark {
 public:
  explicit StreamMark(torch::Device device)
      : event_(device.type(), c10::EventFlag::BACKEND_DEFAULT) {
    event_.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }

  bool is_passed() const { return event_.query(); }

  // Both marks must have been passed. Returns 0 unless kHasStreamTimes.
  double seconds_since([[maybe_unused]] const StreamMark& earlier) const {
    if constexpr (kHasStreamTimes) {
      return elapsed(earlier.event_, event_) / 1000;
    }
    return 0;
  }

 private:
  // A template, so that it is not instantiated with a libtorch without elapsedTime().
  template <typename Event>
  static double elapsed(const Event& from, const Event& to) {
    return from.elapsedTime(to);
  }

  c10::Event event_;
};

}  // namespace lockstep::comm
