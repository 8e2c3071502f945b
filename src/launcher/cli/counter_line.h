// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::cli {

// Progress of a long operation on stderr: on a terminal one line that is rewritten, otherwise a new
// line every 30 seconds.
class CounterLine {
 public:
  explicit CounterLine(std::string what);
  ~CounterLine() { clear(); }  // removes the line from the terminal
  CounterLine(const CounterLine&) = delete;
  CounterLine& operator=(const CounterLine&) = delete;

  void show(int64_t done, int64_t of);

  // Must be called before other output to the terminal.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  bool is_terminal_;
  bool is_drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

}  // namespace lockstep::cli
