// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "os/process.h"

namespace lockstep::agent {

// Why a run failed: what the box on the terminal and failure.json tell.
struct Failure {
  std::string who;  // "rank 3", or "the seed of ranks 0-3"
  int rank = 0;
  int local_rank = 0;
  std::string node;
  int pid = 0;
  int attempt = 0;
  os::ExitStatus status;
  bool may_be_out_of_memory = false;  // the kernel's OOM killer has struck during the run
  std::string note;                   // what else the agent knows
  std::filesystem::path log;
  std::vector<std::string> last_lines;
};

// "left with code 3", "died by SIGSEGV", "was killed by SIGKILL, perhaps by the kernel's OOM
// killer".
std::string describe_death(const Failure& failure);

// Several lines, framed, for people.
std::string to_box(const Failure& failure);

// The same for programs; docs/launch.md shows it.
std::string to_json(const Failure& failure);

// The last `most` lines of a text file; none when it cannot be read.
std::vector<std::string> read_last_lines(const std::filesystem::path& path, size_t most);

}  // namespace lockstep::agent
