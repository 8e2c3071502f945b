// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Parsers for the output of scontrol.
namespace lockstep::slurm {

using Fields = std::map<std::string, std::string, std::less<>>;

// Parses one line of `scontrol -o`: "JobId=1 JobName=a b UserId=hpc(2001)". Names begin with a
// capital letter, so values can contain spaces ("OS=Linux 6.1 #1 SMP"). Of two fields with the same
// name, the first is used. "(null)", "N/A", "None", "NONE" and "Unknown" become empty.
Fields parse_fields(std::string_view line);

// Parses the lines of `scontrol show config`: "ClusterName             = lab".
Fields parse_settings(std::string_view text);

// Empty if there is no such field.
std::string value_of(const Fields& fields, std::string_view name);

// Reads a count: "4", "64K" or "2-2" (the first number). Returns `missing` if there is none.
int64_t count_of(const Fields& fields, std::string_view name, int64_t missing = 0);

}  // namespace lockstep::slurm
