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
#include <torch/torch.h>
#include <vector>

#include "comm/side_stream.h"
#include "lockstep/strategy.h"
#include "strategy/horovod_autotune.h"
#include "strategy/horovod_cache.h"
#include "strategy/horovod_coordinator.h"
#include "strategy/horovod_fusion.h"
#include "strategy/horovod_message.h"
#include "strategy/horovod_timeline.h"

namespace lockstep::strategy::horovod {

// A tensor that this worker has ready.
struct Announcement {
  std::string name;
  torch::Tensor value;  // replaced by the result; not to be touched before wait() has returned
  Operation operation = {};
  bool empty = false;  // this worker has nothing to give: `value` is zeros
};

// What the engine has done; for tests and benchmarks.
struct EngineCounts {
  int64_t cycles = 0;       // rounds of agreement
  int64_t full_rounds = 0;  // those in which names travelled
  int64_t reductions = 0;   // buffers that were reduced
};

// Reduces named tensors over the gang on a thread of its own, in whatever order each worker has
// them ready.
//
// In each cycle the workers agree on what all have ready: by a small all-reduce of a byte or two
// per tensor that they know of each other, else through the coordinator, rank 0. What is ready is
// fused and reduced. The thread sleeps while nothing is announced, but for a sign of life every
// second, so that others learn that nothing comes from here.
//
// One thread at a time may call announce(), wait(), join() and end_step(); hooks of backward may
// announce from any thread.
class Engine {
 public:
  using Clock = std::chrono::steady_clock;
  using Report = std::function<void(const std::string&)>;

  // All workers make theirs at the same time; `channel` is used by nobody else. `report` gets the
  // stall reports, on rank 0. Only rank 0 writes files.
  Engine(std::unique_ptr<Communicator> channel, const HorovodOptions& options, Report report = {});

  // Leaves the gang: workers that still wait for this one's tensors get an Error.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Throws what has ended the engine, if something has. A name may be announced again after wait().
  void announce(std::vector<Announcement> tensors);

  // Returns when all that was announced here is reduced, with the names that no worker had anything
  // to give for: those were left alone. Throws an Error, the same on every worker, where they do
  // not agree.
  std::set<std::string> wait();

  // This worker announces no more: gives zeros to what the others announce, until all have joined.
  // Returns the last rank to join.
  int join();

  // Tells autotune that a step is over.
  void end_step();

  EngineCounts counts() const;

 private:
  struct Pending {
    Announcement announced;
    Signature tensor;
    Clock::time_point since;
    bool is_requested = false;  // the coordinator knows of it
    bool is_stalled = false;    // waited so long that the coordinator shall know of it
  };
  // What has come in since the last cycle.
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

  // Before the thread starts.
  std::unique_ptr<Communicator> channel_;
  std::optional<comm::SideStream> side_;  // where messages are work of a GPU
  HorovodOptions options_;
  Report report_;
  Clock::duration keep_alive_;

  // The thread's own.
  std::unique_ptr<Timeline> timeline_;
  std::unique_ptr<Autotune> autotune_;
  std::unique_ptr<Coordinator> coordinator_;
  ResponseCache cache_;
  FusionBuffer fusion_;
  std::map<std::string, Pending> pending_;
  std::vector<std::string> order_;  // of announcement
  std::set<std::string> negotiating_;
  bool is_joined_ = false;
  bool has_asked_to_leave_ = false;
  bool made_progress_ = false;
  int64_t step_bytes_ = 0;
  Clock::time_point last_cycle_;

  // Between the threads.
  mutable std::mutex mutex_;
  std::condition_variable wake_;  // the engine
  std::condition_variable done_;  // the callers
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
