// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "slurm/follow.h"

namespace lockstep::cli {

// How a job is doing, on stderr: on a terminal one line that is rewritten, elsewhere a line per
// change.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }  // leaves the terminal as it was
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const slurm::Progress& progress);

  // A line that stays.
  void tell(const std::string& text);

  // Before others write to the terminal.
  void clear();

 private:
  std::optional<int> columns_;  // absent: no terminal
  std::string headline_;
  bool is_drawn_ = false;
};

}  // namespace lockstep::cli
