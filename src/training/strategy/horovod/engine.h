// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <torch/types.h>
#include <vector>

#include "lockstep/strategy.h"
#include "training/comm/side_stream.h"
#include "training/strategy/horovod/autotune.h"
#include "training/strategy/horovod/cache.h"
#include "training/strategy/horovod/coordinator.h"
#include "training/strategy/horovod/fusion.h"
#include "training/strategy/horovod/message.h"
#include "training/strategy/horovod/timeline.h"

namespace lockstep::strategy::horovod {

// A tensor that is ready on this worker.
struct Announcement {
  std::string name;
  torch::Tensor value;  // replaced by the result; must not be used before wait() returns
  Operation operation = {};
  bool empty = false;  // this worker has no gradient: `value` is zeros
};

// Counters for tests and benchmarks.
struct EngineCounts {
  int64_t cycles = 0;       // negotiation cycles
  int64_t full_rounds = 0;  // cycles that involved the coordinator
  int64_t reductions = 0;   // fusion buffers reduced
};

// Reduces named tensors over all workers on a thread of its own. Each worker may announce them in a
// different order.
//
// The thread works in cycles. All workers execute the same sequence of cycles, because each cycle
// begins with a collective:
//
// - Vote. An all-reduce (minimum) of one byte per flag and two bytes per slot of the response
//   cache. It shows which known tensors are ready on all workers, without names. The layout is
//   drawn in engine.cpp.
// - Negotiation, only if a worker has news: a tensor that is not in the cache or has changed, a
//   stall, join, leave or a setting of autotune. Each worker sends its requests to the coordinator,
//   rank 0, which answers with responses for all.
// - Reduction. The tensors of the responses are fused into buffers and reduced, in the order of the
//   responses. The order is equal on all workers, so the collectives match even if backward
//   produces gradients in different orders.
//
// The thread sleeps while nothing is announced. It still takes part in a cycle at least once per
// second, because the other workers block in the vote until it does.
//
// announce(), wait(), join() and end_step() must be called by one thread at a time. Hooks of
// backward may call announce() on any thread.
class Engine {
 public:
  using Clock = std::chrono::steady_clock;
  using Report = std::function<void(const std::string&)>;

  // All workers construct theirs together. `channel` must not be used by any other code. `report`
  // receives the stall reports on rank 0. Only rank 0 writes files.
  Engine(std::unique_ptr<Communicator> channel, const HorovodOptions& options, Report report = {});

  // Leaves the process group: workers that still wait for tensors of this one get an Error.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Throws the error that has stopped the engine, if any. A name can be announced again after
  // wait().
  void announce(std::vector<Announcement> tensors);

  // Blocks until everything announced here is reduced. Returns the names for which no worker had a
  // gradient; their values are unchanged. Throws an Error, equal on all workers, if the workers do
  // not agree.
  std::set<std::string> wait();

  // Contributes zeros to the tensors of the other workers until all workers have joined. Returns
  // the last rank that joined.
  int join();

  // Informs autotune that a step is complete.
  void end_step();

  EngineCounts counts() const;

 private:
  struct Pending {
    Announcement announced;
    Signature tensor;
    Clock::time_point since;
    bool is_requested = false;  // a request was sent to the coordinator
    bool is_stalled = false;    // waited so long that the coordinator must report it
  };
  // Requests of this worker since the last cycle.
  struct News {
    bool wants_join = false;
    bool wants_leave = false;
    std::optional<Setting> setting;
  };

  void run();
  void sleep();
  bool cycle();
  News take_news();
  std::vector<uint8_t> vote(const News& news);
  std::vector<Response> count_votes(const std::vector<uint8_t>& votes);
  std::vector<Response> negotiate(const News& news);
  std::vector<Request> make_requests(const News& news);
  void perform(const std::vector<Response>& responses);
  bool handle(const std::vector<Response>& responses);
  void finish(const std::string& name, bool was_empty);
  void fail(std::exception_ptr failure);
  bool waits_for_coordinator(const Pending& pending) const;
  void trace_ready(const std::string& name, int rank);
  void tune(News& news);

  // Set before the thread starts.
  std::unique_ptr<Communicator> channel_;
  std::optional<comm::SideStream> side_;  // set if messages are queued on a GPU
  HorovodOptions options_;
  Report report_;
  Clock::duration keep_alive_;

  // Used only by the thread.
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<Autotune> autotune_;
  std::unique_ptr<Coordinator> coordinator_;
  ResponseCache cache_;
  FusionBuffer fusion_;
  std::map<std::string, Pending> pending_;
  std::vector<std::string> order_;  // names in the order of announcement
  std::set<std::string> negotiating_;
  bool is_joined_ = false;
  bool has_asked_to_leave_ = false;
  bool made_progress_ = false;
  int64_t step_bytes_ = 0;
  Clock::time_point last_cycle_;

  // Shared between the threads, protected by mutex_.
  mutable std::mutex mutex_;
  std::condition_variable wake_;  // wakes the engine
  std::condition_variable done_;  // wakes the callers
  std::vector<Announcement> announced_;
  std::set<std::string> unfinished_;
  std::set<std::string> empty_;
  EngineCounts counts_;
  std::optional<int> last_joined_;
  std::exception_ptr failure_;
  int64_t steps_ended_ = 0;
  bool is_waited_for_ = false;
  bool wants_join_ = false;
  bool wants_leave_ = false;

  std::jthread thread_;
};

}  // namespace lockstep::strategy::horovod
