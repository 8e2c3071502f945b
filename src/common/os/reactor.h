// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "common/os/fd.h"

namespace lockstep::os {

// Event loop: waits for many descriptors and calls their handlers. Not thread-safe.
//
// A descriptor must be removed with forget() before it is closed. End of file and errors count as
// readable and writable: the handler then finds out by reading.
class Reactor {
 public:
  using Handler = std::function<void()>;
  enum class For { Read, Write };

  Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Calls `handler` whenever `fd` is ready; replaces an earlier handler.
  void watch(int fd, For what, Handler handler);

  // Harmless if the descriptor is not watched.
  void forget(int fd);

  // Waits until a descriptor is ready or `timeout` has passed (absent: forever), and calls the
  // handlers of those that are ready. Handlers can call watch() and forget().
  void turn(std::optional<std::chrono::milliseconds> timeout);

 private:
  struct Entry {
    uint64_t number = 0;  // distinguishes a descriptor from an earlier one with the same value
    Handler handler;
  };
  Fd epoll_;
  uint64_t next_number_ = 1;
  std::map<int, Entry> entries_;
};

}  // namespace lockstep::os
