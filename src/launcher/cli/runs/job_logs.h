// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "launcher/cli/runs/jobs.h"

namespace lockstep::cli {

// Prints the output files of the job. Throws an Error (64) if there are none yet or if their paths
// are unknown.
void print_job_logs(const JobArgument& job, std::optional<size_t> last_lines);

// Follows a job to its end: shows a progress line until the job starts, then its output on stdout.
// Returns the exit code of the job, or nothing after Ctrl-C.
std::optional<int> follow_with_logs(const JobArgument& job, std::optional<size_t> last_lines);

// Like follow_with_logs for `lockstep logs -f`: returns 0, or 130 after Ctrl-C. Throws an Error
// (64) if the paths of the output files are unknown.
int follow_job_logs(const JobArgument& job, std::optional<size_t> last_lines);

}  // namespace lockstep::cli
