// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <torch/types.h>

#include "training/comm/stream_mark.h"

namespace lockstep::comm {

// Time that the compute stream of a worker has waited for messages. Begin and end of each wait are
// marks in the stream, which are evaluated after the GPU has passed them; no thread waits for the
// GPU. Thread-safe.
class StreamWaits {
 public:
  // Parts of a step: forward and backward, and the update. Waits elsewhere are not counted.
  enum Part : size_t { Gradients, Update, Elsewhere };
  static constexpr size_t kParts = 2;
  using Seconds = std::array<double, kParts>;

  explicit StreamWaits(torch::Device device) : device_(device) {}

  // Declares the current stream to be the compute stream.
  void set_home();

  // Waits that begin from here on belong to this part.
  void set_part(Part part);

  // Around operations that make the current stream wait. Nested pairs count once. Streams other
  // than the compute stream are ignored.
  void begin();
  void end();

  // hand_over() marks that a message was started. wait_since_hand_over() counts the time since the
  // last such mark as waiting, or nothing without a mark since the last call.
  void hand_over();
  void wait_since_hand_over();

  // Returns and resets the waits that the GPU has passed.
  Seconds take();

 private:
  struct Wait {
    StreamMark begun;
    StreamMark ended;
    Part part;
  };

  bool counts() const;

  torch::Device device_;
  std::mutex mutex_;
  std::optional<c10::Stream> home_;
  Part part_ = Elsewhere;
  int depth_ = 0;
  std::optional<StreamMark> begun_;
  std::optional<StreamMark> handed_over_;
  std::deque<Wait> waits_;
};

}  // namespace lockstep::comm
