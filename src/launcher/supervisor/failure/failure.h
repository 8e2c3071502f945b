// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/process.h"
#include "launcher/supervisor/failure/python_exception.h"

namespace lockstep::supervisor {

// Whether a worker was killed because memory ran out.
enum class OutOfMemory {
  No,
  Perhaps,  // the OOM killer killed a process somewhere on the machine
  Yes,      // the OOM killer killed a process in the cgroup of the run
};

// Workers of one node that were stopped because another worker failed.
struct StoppedWorkers {
  std::string node;
  int count = 0;

  bool operator==(const StoppedWorkers&) const = default;
};

// The failure report: the box on the terminal and failure.json. The agent of the node on which the
// failure happened creates it and sends it to the leader as JSON.
struct Failure {
  std::string who;  // "rank 3", "the fork server of ranks 0-3", "node node-b"
  int rank = 0;
  int local_rank = 0;
  std::string node;
  int pid = 0;  // 0: not a process; rank, local rank and status have no meaning then
  int attempt = 0;
  int max_restarts = 0;
  double seconds = 0;  // since the start of the attempt; 0: unknown
  os::ExitStatus status;
  std::string cause;                            // for a failure without an exit status; else empty
  bool may_be_out_of_memory = false;            // the OOM killer was active during the run
  OutOfMemory out_of_memory = OutOfMemory::No;  // from the counters of the cgroup
  std::optional<PythonException> exception;
  std::vector<StoppedWorkers> stopped;
  std::string note;  // additional information from the agent
  std::filesystem::path log;
  std::vector<std::string> last_lines;

  bool operator==(const Failure&) const = default;
};

// The files with the last output of a worker. A run directory that is used again contains logs of
// earlier runs.
struct LastOutputFiles {
  std::filesystem::path error_file;
  int64_t log_begin = 0;  // byte at which the output of this worker starts
  size_t most = 20;       // maximum number of lines
};

// Adds the last lines of failure.log and the Python exception: from the error file, else from the
// log if the exit status fits an exception. Either file may be missing.
void add_last_output(Failure& failure, const LastOutputFiles& words);

// Combines the two fields about memory with the exit status.
OutOfMemory judge_memory(const Failure& failure);

// "exited with code 3", "was killed by SIGSEGV", "was killed by SIGKILL, possibly by the kernel's
// OOM killer: out of memory".
std::string describe_death(const Failure& failure);

// The box: several lines in a frame, for people.
std::string to_box(const Failure& failure);

// failure.json, for programs; docs/launch.md describes it.
std::string to_json(const Failure& failure);

// Parses the output of to_json(). Throws an Error (74) if the text is something else.
Failure parse_failure(std::string_view text);

// The last `most` lines of a text file after byte `begin`; none if it cannot be read.
std::vector<std::string> read_last_lines(const std::filesystem::path& path,
                                         size_t most,
                                         int64_t begin = 0);

}  // namespace lockstep::supervisor
