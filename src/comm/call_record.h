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
#include <torch/torch.h>

#include "comm/stream_waits.h"

namespace lockstep::comm {

// The barrier at which run() ends; a worker that is there makes no further call.
inline constexpr const char* kEndOfProgram = "the end of the program";

// What a call is. `what` lives for ever.
struct CallWords {
  const char* what = "";
  int64_t count = -1;  // of elements, or of workers; -1: none
  std::optional<torch::ScalarType> type = std::nullopt;
  int root = -1;  // -1: none
};

// "all-reduce of 1,200 floats", "broadcast of 10 doubles from rank 2".
std::string to_text(const CallWords& words);

// Where a worker is in its calls, at one moment.
struct CallView {
  uint64_t number = 0;  // of calls begun, the last one included
  std::string call;     // the last one's words
  bool in_call = false;
  std::string scope;  // of the stretch that the worker is in; empty: none
  std::string detail;
  std::string phase;    // what it does between calls; empty: not told
  bool failed = false;  // the last call or stretch was left by an exception
  std::chrono::steady_clock::time_point since = {};  // the last time that a call began or ended

  bool is_inside() const { return in_call || !scope.empty(); }
};

// The calls of one worker as they come and go. One thread at a time writes, without locks and in
// some tens of nanoseconds; any thread may read at any time.
class CallRecord {
 public:
  CallRecord();

  // A call of a transport: these are numbered, and the numbers of all workers correspond.
  void begin(const CallWords& words);
  void end(bool failed);

  // A stretch of several. False, and nothing changes, within another one.
  bool enter(const char* what, std::string_view detail);
  void leave(bool failed);

  // Of the thread that trains.
  void set_phase(const char* phase) {
    phase_.store(phase, std::memory_order_relaxed);
    trainer_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    if (stream_waits_ != nullptr) {
      stream_waits_->set_home();
    }
  }

  // How long the thread that trains has waited for other workers, in calls of its own and for those
  // of other threads. Calls that are queued on a GPU take no time here, but in stream_waits().
  std::chrono::steady_clock::duration waited() const {
    return std::chrono::steady_clock::duration(waited_.load(std::memory_order_relaxed));
  }

  // Something to exchange goes to another thread. Where the thread that trains has come back to
  // wait for it, all since the last hand_over() was waiting; without one since the last time,
  // nothing.
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

  // Of a transport whose calls are queued on a GPU; null otherwise. Set before the first call.
  const std::shared_ptr<StreamWaits>& stream_waits() const { return stream_waits_; }
  void set_stream_waits(std::shared_ptr<StreamWaits> waits) { stream_waits_ = std::move(waits); }

  CallView read() const;

  // Whether this call is one of the first, which the workers compare before they make them. Only
  // the thread that makes calls asks.
  bool is_compared() { return compared_ < kCompared && ++compared_ > 0; }

 private:
  static int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

  // Mistakes of a program show at once; what a comparison costs shall not.
  static constexpr int kCompared = 64;
  static constexpr size_t kDetailWords = 24;

  // Of a stretch; a call may begin and end within it, on another thread.
  struct Stretch {
    std::atomic<uint64_t> version = 0;  // odd: being written
    std::atomic<const char*> what = nullptr;
    std::atomic<int64_t> since = 0;
    std::array<std::atomic<uint64_t>, kDetailWords> detail = {};
    std::atomic<uint64_t> detail_bytes = 0;
  };

  struct Last {
    std::atomic<uint64_t> version = 0;  // odd: being written
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
  std::atomic<int64_t> handed_over_ = 0;  // 0: nothing
  std::shared_ptr<StreamWaits> stream_waits_;
  int compared_ = 0;
};

// From its beginning to its end the current stream of a GPU waits for messages.
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
      // The GPU has failed, and whoever asks it next is told.
    }
  }

 private:
  std::shared_ptr<StreamWaits> waits_;
};

// From its beginning to its end the thread that trains waits for what another thread exchanges, and
// its stream for what travels in others.
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

}  // namespace lockstep::comm
