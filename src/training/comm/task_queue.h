// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lockstep::comm {

// Executes tasks in order on a thread of its own. The destructor executes the queued tasks first.
class TaskQueue {
 public:
  TaskQueue() : thread_([this](const std::stop_token& stop) { loop(stop); }) {}

  void push(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    more_.notify_one();
  }

 private:
  void loop(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (more_.wait(lock, stop, [this] { return !tasks_.empty(); })) {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any more_;
  std::deque<std::function<void()>> tasks_;
  std::jthread thread_;
};

}  // namespace lockstep::comm
