// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <torch/types.h>
#include <vector>

#include "lockstep/communicator.h"
#include "training/comm/side_stream.h"
#include "training/comm/task_queue.h"

namespace lockstep::strategy {

// Executes the exchanges of one strategy one after the other, in the order of start(): on a thread
// of its own if the communicator mostly waits for a network, on a stream of its own if it queues
// work on a GPU, otherwise in the calling thread. While it is held, exchanges are only queued.
//
// The future of GPU work completes when the work is queued; wait() makes the current stream wait
// for it. Memory that an exchange releases may be reused at once by the stream that allocated it.
// So everything that an exchange reads must live until its future was waited for, or be passed to
// the communicator, which keeps it.
//
// Must be used by one thread at a time. The communicator is called on the thread of the exchange,
// so no other thread may call it before all futures are complete. channel() can be used at any
// time.
class Exchange {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;
  using Task = std::function<torch::Tensor(Communicator&)>;

  // `overlap`: exchanges may overlap with the computation. `communicator` must outlive this.
  Exchange(Communicator& communicator, bool overlap);
  ~Exchange();

  // The future contains the result of `task`, or its exception.
  Future start(Task task);

  // Blocks until the future is complete. An exception stays in the future.
  void wait(const Future& future);

  // Whether exchanges overlap with the computation.
  bool runs_concurrently() const { return queue_ != nullptr || side_.has_value(); }

  // After hold(), start() only queues. release() executes the queued exchanges and ends the hold.
  void hold() { held_ = true; }
  void release();
  bool held() const { return held_; }
  bool has_waiting() const { return !waiting_.empty(); }

  // A communicator for synchronous calls, which keep their order among the exchanges.
  Communicator& channel();

 private:
  class Channel;

  // Executes the call after everything that is in progress, and waits for it.
  void run(const std::function<void()>& call);

  // Executes the call in this thread, on the side stream if there is one.
  void run_here(const std::function<void()>& call);

  Communicator& communicator_;
  std::optional<comm::SideStream> side_;
  std::unique_ptr<comm::TaskQueue> queue_;  // null: executed in the calling thread
  std::unique_ptr<Channel> channel_;
  std::vector<std::function<void()>> waiting_;
  bool held_ = false;
};

}  // namespace lockstep::strategy
