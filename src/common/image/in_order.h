// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fmt/format.h>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/os/thread_name.h"
#include "lockstep/error.h"

namespace lockstep::image {

// Processes numbered items on several threads and returns the results in order. The number of
// waiting results is limited, to bound the memory. One thread calls the methods; all others call
// `work` concurrently.
template <typename Result>
class InOrder {
 public:
  // Calls `work(index, thread)` for every index below `count`; threads are numbered from 0. Throws
  // an Error (69) if not all threads can be started.
  InOrder(int64_t count, int threads, std::function<Result(int64_t, int)> work)
      : count_(count), work_(std::move(work)), slots_(static_cast<size_t>(threads) * 8) {
    try {
      for (int i = 0; i < threads; ++i) {
        threads_.emplace_back([this, i] { serve(i); });
      }
    } catch (const std::exception& reason) {
      // Memory for stacks or the permitted number of threads is exhausted.
      const size_t started = threads_.size();
      stop();
      threads_.clear();
      throw Error(ExitCode::Unavailable, fmt::format("cannot start {} threads", threads))
          .fact("started", std::to_string(started))
          .fact("reason", reason.what())
          .hint(fmt::format("--threads {}", std::max<size_t>(started / 2, 1)));
    }
  }

  ~InOrder() { stop(); }

  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

  // The result of the next index; rethrows exceptions of `work`.
  Result next() {
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(taken_);
    changed_.wait(lock, [&slot] { return slot.is_full; });
    slot.is_full = false;
    std::optional<Result> result = std::exchange(slot.result, std::nullopt);
    const std::exception_ptr failure = std::exchange(slot.failure, nullptr);
    ++taken_;
    lock.unlock();
    changed_.notify_all();
    if (failure) {
      std::rethrow_exception(failure);
    }
    return std::move(*result);
  }

 private:
  struct Slot {
    bool is_full = false;
    std::optional<Result> result;
    std::exception_ptr failure;
  };

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    changed_.notify_all();
  }

  Slot& slot_of(int64_t index) { return slots_[static_cast<size_t>(index) % slots_.size()]; }

  // Claims the next index; nothing at the end.
  std::optional<int64_t> begin_next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] {
      return is_stopped_ || begun_ >= count_ ||
             begun_ - taken_ < static_cast<int64_t>(slots_.size());
    });
    if (is_stopped_ || begun_ >= count_) {
      return std::nullopt;
    }
    return begun_++;
  }

  void serve(int thread) {
    os::name_this_thread(fmt::format("image {}", thread));
    while (const std::optional<int64_t> index = begin_next()) {
      std::optional<Result> result;
      std::exception_ptr failure;
      try {
        result = work_(*index, thread);
      } catch (...) {
        failure = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        Slot& slot = slot_of(*index);
        slot.result = std::move(result);
        slot.failure = failure;
        slot.is_full = true;
      }
      changed_.notify_all();
    }
  }

  const int64_t count_;
  const std::function<Result(int64_t, int)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  int64_t begun_ = 0;
  int64_t taken_ = 0;
  bool is_stopped_ = false;
  std::vector<std::jthread> threads_;  // last member: joined before the others are destroyed
};

}  // namespace lockstep::image
