// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/counter_line.h"

#include <cstdio>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"
#include "common/os/terminal.h"

namespace lockstep::cli {
namespace {

constexpr int kStderr = 2;
// In a log file, a line every 200 ms would hide everything else.
constexpr std::chrono::milliseconds kOnTerminal(200);
constexpr std::chrono::seconds kElsewhere(30);

}  // namespace

CounterLine::CounterLine(std::string what)
    : what_(std::move(what)), is_terminal_(os::is_terminal(kStderr)) {}

void CounterLine::show(int64_t done, int64_t of) {
  const Clock::time_point now = Clock::now();
  if (now - shown_ < (is_terminal_ ? kOnTerminal : Clock::duration(kElsewhere))) {
    return;
  }
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const std::string text = fmt::format("lockstep: {}: {} of {}, {:.0f} per second",
                                       what_,
                                       format_count(done),
                                       format_count(of),
                                       static_cast<double>(done) / seconds);
  if (is_terminal_) {
    fmt::print(stderr, "\r{}\x1b[K", text);
    std::fflush(stderr);
    is_drawn_ = true;
  } else {
    fmt::print(stderr, "{}\n", text);
  }
}

void CounterLine::clear() {
  if (is_drawn_) {
    fmt::print(stderr, "\r\x1b[K");
    is_drawn_ = false;
  }
}

}  // namespace lockstep::cli
