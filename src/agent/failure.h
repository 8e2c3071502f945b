// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/python_exception.h"
#include "os/process.h"

namespace lockstep::agent {

// Whether a worker died for want of memory.
enum class OutOfMemory {
  No,
  Perhaps,  // the OOM killer has struck somewhere on the machine
  Yes,      // it has struck in the run's own cgroup
};

// Workers of one node that were stopped because another failed.
struct StoppedWorkers {
  std::string node;
  int count = 0;

  bool operator==(const StoppedWorkers&) const = default;
};

// Why a run failed: what the box on the terminal and failure.json tell. The agent of the node on
// which it happened makes it, and it travels as JSON to the one that leads.
struct Failure {
  std::string who;  // "rank 3", "the seed of ranks 0-3", "node node-b"
  int rank = 0;
  int local_rank = 0;
  std::string node;
  int pid = 0;  // 0: no process of ours; rank, local rank and status say nothing then
  int attempt = 0;
  int max_restarts = 0;
  double seconds = 0;  // since the attempt began; 0: not known
  os::ExitStatus status;
  std::string cause;                  // how it failed where no exit status tells; else empty
  bool may_be_out_of_memory = false;  // the kernel's OOM killer has struck during the run
  OutOfMemory out_of_memory = OutOfMemory::No;  // where the cgroup's counters say more
  std::optional<PythonException> exception;
  std::vector<StoppedWorkers> stopped;
  std::string note;  // what else the agent knows
  std::filesystem::path log;
  std::vector<std::string> last_lines;

  bool operator==(const Failure&) const = default;
};

// Where a worker left what it said. A run directory that is used again has logs of earlier runs.
struct LastWords {
  std::filesystem::path error_file;
  int64_t log_begin = 0;  // of this worker, in bytes
  size_t most = 20;       // lines
};

// Adds what the worker left in its files: the last lines of failure.log, and the exception of the
// error file, or else of the log where its way of dying fits one. Either file may be absent.
void add_last_words(Failure& failure, const LastWords& words);

// What the two fields about memory say together, for this way of dying.
OutOfMemory judge_memory(const Failure& failure);

// "left with code 3", "died by SIGSEGV", "was killed by SIGKILL, perhaps by the kernel's OOM
// killer".
std::string describe_death(const Failure& failure);

// Several lines, framed, for people.
std::string to_box(const Failure& failure);

// The same for programs; docs/launch.md shows it.
std::string to_json(const Failure& failure);

// Reads what to_json() wrote. Throws an Error (74) when it did not.
Failure parse_failure(std::string_view text);

// The last `most` lines of a text file after its byte `begin`; none when it cannot be read.
std::vector<std::string> read_last_lines(const std::filesystem::path& path,
                                         size_t most,
                                         int64_t begin = 0);

}  // namespace lockstep::agent
