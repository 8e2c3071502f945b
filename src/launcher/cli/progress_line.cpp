// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/progress_line.h"

#include <cstdio>
#include <fmt/format.h>

#include "common/os/terminal.h"
#include "launcher/supervisor/console/display.h"

namespace lockstep::cli {
namespace {

constexpr const char* kClear = "\r\x1b[2K";
constexpr int kUsualColumns = 80;

}  // namespace

ProgressLine::ProgressLine() {
  if (os::is_terminal(2)) {
    columns_ = os::find_terminal_columns(2).value_or(kUsualColumns);
  }
}

// One column stays free: some terminals wrap when the last one is written, and the line could not
// be cleared any more. Without a terminal, only the headline counts as a change; the moment
// (elapsed time) changes with every call.
void ProgressLine::show(const slurm::JobProgress& progress) {
  const std::string text = progress.moment.empty()
                               ? progress.headline
                               : fmt::format("{}, {}", progress.headline, progress.moment);
  if (columns_) {
    fmt::print(stderr, "{}{}", kClear, supervisor::cut_to_columns(text, *columns_ - 1));
    is_drawn_ = true;
  } else if (progress.headline != headline_) {
    tell(text);
  }
  headline_ = progress.headline;
}

void ProgressLine::tell(const std::string& text) {
  clear();
  fmt::print(stderr, "lockstep: {}\n", text);
}

void ProgressLine::clear() {
  if (is_drawn_) {
    std::fputs(kClear, stderr);
    is_drawn_ = false;
  }
}

}  // namespace lockstep::cli
