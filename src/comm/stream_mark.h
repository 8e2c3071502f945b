// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

namespace lockstep::comm {

// Whether libtorch can say how long a GPU took from one mark to another.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 6)
inline constexpr bool kHasStreamTimes = true;
#else
inline constexpr bool kHasStreamTimes = false;
#endif

// A moment in the stream that is current where it is made; the GPU passes it when it gets there.
class StreamMark {
 public:
  explicit StreamMark(torch::Device device)
      : event_(device.type(), c10::EventFlag::BACKEND_DEFAULT) {
    event_.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }

  bool is_passed() const { return event_.query(); }

  // Both are passed; kHasStreamTimes.
  double seconds_since([[maybe_unused]] const StreamMark& earlier) const {
    if constexpr (kHasStreamTimes) {
      return elapsed(earlier.event_, event_) / 1000;
    }
    return 0;
  }

 private:
  // A template, so that a libtorch that has no such times is not asked.
  template <typename Event>
  static double elapsed(const Event& from, const Event& to) {
    return from.elapsedTime(to);
  }

  c10::Event event_;
};

}  // namespace lockstep::comm
