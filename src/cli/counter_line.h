// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::cli {

// How far a long piece of work is, on stderr: on a terminal one line that is rewritten, elsewhere a
// line now and then.
class CounterLine {
 public:
  explicit CounterLine(std::string what);
  ~CounterLine() { clear(); }  // leaves the terminal as it was
  CounterLine(const CounterLine&) = delete;
  CounterLine& operator=(const CounterLine&) = delete;

  void show(int64_t done, int64_t of);

  // Before others write to the terminal.
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
