// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <torch/torch.h>

#include "comm/stream_mark.h"

namespace lockstep::comm {

// How long the stream in which a worker computes has stood still for messages of the gang. Begin
// and end of each wait are marks in it, looked at when the GPU has passed them: nobody waits for
// that. Any thread may call.
class StreamWaits {
 public:
  // Of a step: forward and backward, and the update. What is waited for elsewhere is not counted.
  enum Part : size_t { Gradients, Update, Elsewhere };
  static constexpr size_t kParts = 2;
  using Seconds = std::array<double, kParts>;

  explicit StreamWaits(torch::Device device) : device_(device) {}

  // The stream that is current is the one that computes.
  void set_home();

  // What begins from here on belongs to this part.
  void set_part(Part part);

  // Around whatever lets the current stream wait. One within another counts once; in any other
  // stream than home, not at all.
  void begin();
  void end();

  // Something goes out; where the stream has come to wait for it, all since the last such moment
  // was waiting. Without one since the last time, nothing.
  void hand_over();
  void wait_since_hand_over();

  // Of the waits that the GPU has passed since the last call.
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
