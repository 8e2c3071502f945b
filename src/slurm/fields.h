// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// What scontrol prints, taken apart.
namespace lockstep::slurm {

using Fields = std::map<std::string, std::string, std::less<>>;

// "JobId=1 JobName=a b UserId=hpc(2001)", one line of `scontrol -o`: a name begins with a capital
// letter, so that values may have spaces ("OS=Linux 6.1 #1 SMP"), and, where two are the same, the
// first counts. "(null)", "N/A", "None" and "Unknown" are empty.
Fields parse_fields(std::string_view line);

// "ClusterName             = lab", the lines of `scontrol show config`.
Fields parse_settings(std::string_view text);

// Empty when there is none.
std::string value_of(const Fields& fields, std::string_view name);

// A count such as "4", "64K" or "2-2" (the first); `missing` when there is none.
int64_t count_of(const Fields& fields, std::string_view name, int64_t missing = 0);

}  // namespace lockstep::slurm
