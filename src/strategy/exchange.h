// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <torch/torch.h>
#include <vector>

#include "comm/side_stream.h"
#include "comm/task_queue.h"
#include "lockstep/communicator.h"

namespace lockstep::strategy {

// Does the exchanges of one strategy one after the other, in the order in which they are started:
// on a thread of its own where the communicator mostly waits for a network, on a stream of its own
// where it queues work on a GPU, else in the call. While it is held they wait.
//
// A future of work on a GPU is done when that is queued; whoever waits for it lets what it queues
// itself come after. Memory that an exchange gives back may be used again at once by the stream
// that took it: what an exchange reads lives until its future was waited for, or passes through the
// communicator, which looks after it.
//
// One thread at a time may call it. As it has a thread that calls the communicator, nobody else may
// call that before all futures are done; channel() may be called at any time.
class Exchange {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;
  using Task = std::function<torch::Tensor(Communicator&)>;

  // `overlap`: exchanges may run beside the computation. `communicator` must outlive this.
  Exchange(Communicator& communicator, bool overlap);
  ~Exchange();

  // The future's value is what `task` returns; its error is what `task` throws.
  Future start(Task task);

  // Until it is done. What its task has thrown stays in it.
  void wait(const Future& future);

  // Whether exchanges run beside the computation.
  bool runs_beside() const { return queue_ != nullptr || side_.has_value(); }

  // From here on start() only takes notes; release() does what was noted, and ends that.
  void hold() { held_ = true; }
  void release();
  bool held() const { return held_; }
  bool has_waiting() const { return !waiting_.empty(); }

  // The communicator, for calls that keep the order among the exchanges and return when they are
  // done.
  Communicator& channel();

 private:
  class Channel;

  // Does it now, after all that is under way.
  void run(const std::function<void()>& call);

  // In the call, on a stream of its own if it has one.
  void run_here(const std::function<void()>& call);

  Communicator& communicator_;
  std::optional<comm::SideStream> side_;
  std::unique_ptr<comm::TaskQueue> queue_;  // none: in the call
  std::unique_ptr<Channel> channel_;
  std::vector<std::function<void()>> waiting_;
  bool held_ = false;
};

}  // namespace lockstep::strategy
