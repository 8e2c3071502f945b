// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::image {

// Works on numbered things in several threads, and hands the results out in order. Only so many
// results wait that memory stays small. One thread calls; `work` is called by all others at once.
template <typename Result>
class InOrder {
 public:
  // `work(index, thread)` for every index below `count`; threads are numbered from 0.
  InOrder(int64_t count, int threads, std::function<Result(int64_t, int)> work)
      : count_(count), work_(std::move(work)), slots_(static_cast<size_t>(threads) * 8) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i] { serve(i); });
    }
  }

  ~InOrder() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    changed_.notify_all();
  }

  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

  // The result of the next index; throws what its work threw.
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

  Slot& slot_of(int64_t index) { return slots_[static_cast<size_t>(index) % slots_.size()]; }

  // The next index to work on; nothing at the end.
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
  std::vector<std::jthread> threads_;  // last: they end before what they use
};

}  // namespace lockstep::image
