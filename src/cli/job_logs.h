// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "cli/jobs.h"

namespace lockstep::cli {

// Writes what the job has written to its output files; throws an Error (64) when there are none
// yet, or nobody knows where.
void print_job_logs(const Job& job, std::optional<size_t> last_lines);

// Follows a job to its end: until it starts with a progress line, then with what it writes, on
// stdout. Its code, or nothing when the user leaves with Ctrl-C.
std::optional<int> follow_with_logs(const Job& job, std::optional<size_t> last_lines);

// The same for one whose logs are asked for: 0, or 130 when the user leaves. Throws an Error (64)
// when nobody knows where they are.
int follow_job_logs(const Job& job, std::optional<size_t> last_lines);

}  // namespace lockstep::cli
