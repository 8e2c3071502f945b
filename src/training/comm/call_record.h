// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <torch/types.h>

#include "training/comm/stream_waits.h"

namespace lockstep {

class Communicator;

namespace comm {

// Name of the barrier at the end of run(). A worker in this barrier makes no further call.
inline constexpr const char* kEndOfProgram = "the end of the program";

// Description of one call. `what` must have static storage duration.
struct CallWords {
  const char* what = "";
  int64_t count = -1;  // number of elements or of workers; -1: not applicable
  std::optional<torch::ScalarType> type = std::nullopt;
  int root = -1;  // -1: the call has no root
};

// "all-reduce of 1,200 floats", "broadcast of 10 doubles from rank 2".
std::string to_text(const CallWords& words);

// Snapshot of the position of a worker in its sequence of calls.
struct CallView {
  uint64_t number = 0;  // calls begun so far, including the current one
  std::string call;     // description of the last call
  bool in_call = false;
  std::string scope;  // innermost open CallScope; empty: none
  std::string detail;
  std::string phase;    // activity between calls; empty: unknown
  bool failed = false;  // the last call or scope ended with an exception
  std::chrono::steady_clock::time_point since = {};  // when the last call or scope began or ended

  bool is_inside() const { return in_call || !scope.empty(); }
};

// Record of the calls of one worker. One thread at a time writes it; any thread may read it at any
// time.
//
// The writer uses no lock and needs some tens of nanoseconds per call. It must not wait for the
// watch thread: a worker that hangs in a call must stay readable. Readers therefore use a sequence
// lock (see call_record.cpp) and retry if they overlap with a write.
class CallRecord {
 public:
  CallRecord();

  // A call of a transport. Calls are numbered, and equal numbers on all workers belong to the same
  // collective.
  void begin(const CallWords& words);
  void end(bool failed);

  // A scope around several calls. Scopes do not nest: enter() returns false and changes nothing if
  // a scope is already open.
  bool enter(const char* what, std::string_view detail);
  void leave(bool failed);

  // Called by the training thread; marks it as the thread whose waiting time is counted.
  void set_phase(const char* phase) {
    phase_.store(phase, std::memory_order_relaxed);
    trainer_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    if (stream_waits_ != nullptr) {
      stream_waits_->set_home();
    }
  }

  // Time that the training thread has waited for other workers, in its own calls and for calls of
  // other threads. Calls that are queued on a GPU take no host time and are counted in
  // stream_waits().
  std::chrono::steady_clock::duration waited() const {
    return std::chrono::steady_clock::duration(waited_.load(std::memory_order_relaxed));
  }

  // hand_over() notes that work was passed to a communication thread. wait_since_hand_over() counts
  // the time since the last hand_over() as waiting: the training thread has nothing left to
  // compute. Without a hand_over() since the last call, nothing is counted.
  void hand_over() {
    handed_over_.store(now(), std::memory_order_relaxed);
    if (stream_waits_ != nullptr) {
      stream_waits_->hand_over();
    }
  }
  void wait_since_hand_over() {
    if (stream_waits_ != nullptr) {
      stream_waits_->wait_since_hand_over();
    }
    if (const int64_t since = handed_over_.exchange(0, std::memory_order_relaxed)) {
      waited_.fetch_add(now() - since, std::memory_order_relaxed);
    }
  }

  void add_wait(std::chrono::steady_clock::duration time) {
    waited_.fetch_add(time.count(), std::memory_order_relaxed);
  }

  // Only of a transport that queues its calls on a GPU; otherwise null. Must be set before the
  // first call.
  const std::shared_ptr<StreamWaits>& stream_waits() const { return stream_waits_; }
  void set_stream_waits(std::shared_ptr<StreamWaits> waits) { stream_waits_ = std::move(waits); }

  CallView read() const;

  // Whether this call is among the first kCompared, which the workers compare before they execute
  // them. Only the calling thread may ask.
  bool is_compared() { return compared_ < kCompared && ++compared_ > 0; }

 private:
  static int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

  // Most programming errors show within the first calls. Comparing all calls would slow down every
  // step.
  static constexpr int kCompared = 64;
  static constexpr size_t kDetailWords = 24;

  // The open scope. Calls may begin and end within it on another thread, so it has a sequence lock
  // of its own.
  struct Stretch {
    std::atomic<uint64_t> version = 0;  // odd while a write is in progress
    std::atomic<const char*> what = nullptr;
    std::atomic<int64_t> since = 0;
    std::array<std::atomic<uint64_t>, kDetailWords> detail = {};
    std::atomic<uint64_t> detail_bytes = 0;
  };

  struct Last {
    std::atomic<uint64_t> version = 0;  // odd while a write is in progress
    std::atomic<uint64_t> number = 0;
    std::atomic<const char*> what = "";
    std::atomic<int64_t> count = -1;
    std::atomic<int32_t> type = -1;
    std::atomic<int32_t> root = -1;
    std::atomic<bool> inside = false;
    std::atomic<int64_t> since = 0;
  };

  void read_last(CallView& view) const;
  void read_stretch(CallView& view) const;

  Last last_;
  Stretch stretch_;
  std::atomic<bool> failed_ = false;
  std::atomic<const char*> phase_ = "";
  std::atomic<std::thread::id> trainer_ = {};
  std::atomic<int64_t> waited_ = 0;
  std::atomic<int64_t> handed_over_ = 0;  // 0: nothing was handed over
  std::shared_ptr<StreamWaits> stream_waits_;
  int compared_ = 0;
};

// RAII: during its lifetime, the current stream of a GPU waits for messages.
class StreamWaiting {
 public:
  explicit StreamWaiting(const CallRecord& record) : waits_(record.stream_waits()) {
    if (waits_ != nullptr) {
      waits_->begin();
    }
  }
  StreamWaiting(const StreamWaiting&) = delete;
  StreamWaiting& operator=(const StreamWaiting&) = delete;
  ~StreamWaiting() {
    try {
      if (waits_ != nullptr) {
        waits_->end();
      }
    } catch (const std::exception&) {
      // The GPU has failed. The next operation on it reports the error.
    }
  }

 private:
  std::shared_ptr<StreamWaits> waits_;
};

// RAII: during its lifetime, the training thread waits for another thread, and its stream waits for
// messages in other streams.
class Waiting {
 public:
  explicit Waiting(CallRecord& record) : record_(record), stream_(record) {}
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { record_.add_wait(std::chrono::steady_clock::now() - begun_); }

 private:
  CallRecord& record_;
  StreamWaiting stream_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace comm

// Access to the record that a Communicator keeps of its calls, so that the public header names no
// type of this module.
struct CommunicatorAccess {
  // Valid as long as the Communicator.
  static comm::CallRecord& calls(const Communicator& communicator);

  // Can outlive the Communicator.
  static std::shared_ptr<comm::CallRecord> share_calls(const Communicator& communicator);
};

}  // namespace lockstep
