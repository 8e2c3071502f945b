// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/failure_report.h"
#include "launcher/supervisor/failure/python_exception.h"

namespace lockstep::supervisor {

using contract::Failure;
using contract::OutOfMemory;
using contract::StoppedWorkers;

// The files with the last output of a worker. A run directory that is used again contains logs of
// earlier runs.
struct LastOutputFiles {
  std::filesystem::path error_file;
  int64_t log_begin = 0;  // byte at which the output of this worker starts
  size_t maximum = 20;    // maximum number of lines
};

// Adds the last lines of failure.log and the Python exception: from the error file, else from the
// log if the exit status fits an exception. Either file may be missing.
void add_last_output(Failure& failure, const LastOutputFiles& words);

// "exited with code 3", "was killed by SIGSEGV", "was killed by SIGKILL, possibly by the kernel's
// OOM killer: out of memory".
std::string describe_death(const Failure& failure);

// The box: several lines in a frame, for people.
std::string to_box(const Failure& failure);

// The failure as failure.json, which contains its description and the advice.
std::string to_json(const Failure& failure);

// The last `maximum` lines of a text file after byte `begin`; none if it cannot be read.
std::vector<std::string> read_last_lines(const std::filesystem::path& path,
                                         size_t maximum,
                                         int64_t begin = 0);

}  // namespace lockstep::supervisor
