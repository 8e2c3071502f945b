// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launcher/slurm/follow.h"

namespace lockstep::cli {

// State of a job on stderr: on a terminal one line that is rewritten, otherwise a line per change.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }  // removes the line from the terminal
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const slurm::JobProgress& progress);

  // Prints a permanent line.
  void tell(const std::string& text);

  // Must be called before other output to the terminal.
  void clear();

 private:
  std::optional<int> columns_;  // absent: stderr is not a terminal
  std::string headline_;
  bool is_drawn_ = false;
};

}  // namespace lockstep::cli
