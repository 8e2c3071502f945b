// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "os/fd.h"

namespace lockstep::os {

// Waits for many descriptors at once and calls who is concerned. One thread.
//
// A descriptor must be forgotten before it is closed. An end or an error counts as readable and
// writable: the reader then learns what it is.
class Reactor {
 public:
  using Handler = std::function<void()>;
  enum class For { Read, Write };

  Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Calls `handler` whenever `fd` is ready; replaces what was told of it before.
  void watch(int fd, For what, Handler handler);

  // Harmless for one that is not watched.
  void forget(int fd);

  // Waits until something is ready or `timeout` has passed (none: for ever), and calls the handlers
  // of what is ready. A handler may watch and forget as it likes.
  void turn(std::optional<std::chrono::milliseconds> timeout);

 private:
  struct Entry {
    uint64_t number = 0;  // tells a descriptor from an earlier one of the same value
    Handler handler;
  };
  Fd epoll_;
  uint64_t next_number_ = 1;
  std::map<int, Entry> entries_;
};

}  // namespace lockstep::os
