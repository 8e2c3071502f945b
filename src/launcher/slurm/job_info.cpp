// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/job_info.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/slurm/fields.h"
#include "launcher/slurm/time_limit.h"

namespace lockstep::slurm {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "1" is task 1; "5-9%2" are pending tasks. The names are those of squeue.
std::string name_array_task(const Fields& fields) {
  const std::string array = value_of(fields, "ArrayJobId");
  const std::string task = value_of(fields, "ArrayTaskId");
  if (array.empty() || task.empty()) {
    return value_of(fields, "JobId");
  }
  return is_number(task) ? fmt::format("{}_{}", array, task) : fmt::format("{}_[{}]", array, task);
}

// Depending on its version, Slurm does not expand some of the patterns in file names. NO_VAL
// (0xfffffffe) is printed for the task number of array tasks that have not started.
std::string expand_name(std::string path, const JobInfo& job) {
  const size_t bar = job.id.find('_');
  const std::vector<std::pair<std::string, std::string>> patterns = {
      {"%A", job.id.substr(0, bar)},
      {"%a", bar == std::string::npos ? "" : job.id.substr(bar + 1)},
      {"_4294967294", bar == std::string::npos ? "" : "_*"},  // NO_VAL, for pending tasks
      {"%j", job.raw_id},
      {"%J", job.raw_id},
      {"%u", job.user},
      {"%x", job.name}};
  for (const auto& [pattern, value] : patterns) {
    for (size_t at = path.find(pattern); at != std::string::npos && !value.empty();
         at = path.find(pattern, at + value.size())) {
      path.replace(at, pattern.size(), value);
    }
  }
  return path;
}

// scontrol prints the user as "name(uid)".
JobInfo job_of(const Fields& fields) {
  JobInfo job;
  job.id = name_array_task(fields);
  job.raw_id = value_of(fields, "JobId");
  job.name = value_of(fields, "JobName");
  const std::string user = value_of(fields, "UserId");
  job.user = user.substr(0, user.find('('));
  job.partition = value_of(fields, "Partition");
  job.account = value_of(fields, "Account");
  job.state_word = value_of(fields, "JobState");
  job.state = parse_job_state(job.state_word);
  job.reason = value_of(fields, "Reason");
  job.restarts = static_cast<int>(count_of(fields, "Restarts"));
  job.exit = parse_exit_code(value_of(fields, "ExitCode"));
  job.nodes = value_of(fields, "NodeList");
  job.node_count = static_cast<int>(count_of(fields, "NumNodes"));
  job.submitted = value_of(fields, "SubmitTime");
  job.started = value_of(fields, "StartTime");
  job.ended = value_of(fields, "EndTime");
  job.run_seconds = find_seconds(value_of(fields, "RunTime"));
  job.limit_seconds = find_time_limit(value_of(fields, "TimeLimit"));
  job.directory = value_of(fields, "WorkDir");
  job.output = expand_name(value_of(fields, "StdOut"), job);
  job.errors = expand_name(value_of(fields, "StdErr"), job);
  job.command = value_of(fields, "Command");
  return job;
}

}  // namespace

// Also protects the command lines of scontrol and scancel: the word is passed as an argument.
bool is_job_id(std::string_view word) {
  const size_t bar = word.find('_');
  return is_number(word.substr(0, bar)) &&
         (bar == std::string_view::npos || is_number(word.substr(bar + 1)));
}

std::vector<JobInfo> parse_jobs(std::string_view text) {
  std::vector<JobInfo> jobs;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("JobId=")) {
      jobs.push_back(job_of(parse_fields(line)));
    }
  }
  return jobs;
}

// The order of the fields is that of kAccountingFields. Only the job name, field 2, is expected to
// contain '|'.
std::vector<JobInfo> parse_accounting(std::string_view text) {
  const std::vector<std::string> names = split(kAccountingFields, ',');
  std::vector<JobInfo> jobs;
  for (const std::string& line : split(text, '\n')) {
    std::vector<std::string> values = split(line, '|');
    if (values.size() < names.size()) {
      continue;
    }
    // A '|' in the job name must not shift the fields after it.
    const size_t extra = values.size() - names.size();
    for (size_t i = 0; i < extra; ++i) {
      values[2] += "|" + values[3];
      values.erase(values.begin() + 3);
    }
    const auto plain = [&values](size_t at) {
      const std::string& value = values.at(at);
      return value == "None" || value == "Unknown" || value == "None assigned" ? "" : value;
    };
    JobInfo job;
    job.id = plain(0);
    job.raw_id = plain(1);
    job.name = plain(2);
    job.user = plain(3);
    job.partition = plain(4);
    job.account = plain(5);
    job.state_word = plain(6);
    job.state = parse_job_state(job.state_word);
    job.exit = parse_exit_code(plain(7));
    job.submitted = plain(8);
    job.started = plain(9);
    job.ended = plain(10);
    job.run_seconds = find_seconds(plain(11));
    job.limit_seconds = find_time_limit(plain(12));
    job.nodes = plain(13);
    job.node_count = static_cast<int>(find_integer(plain(14)).value_or(0));
    job.reason = plain(15);
    job.directory = plain(16);
    jobs.push_back(job);
  }
  return jobs;
}

std::optional<std::string> find_estimate(const JobInfo& job) {
  constexpr size_t kYearDigits = 4;
  const auto year = find_integer(std::string_view(job.started).substr(0, kYearDigits));
  constexpr int64_t kNextCentury = 2100;
  if (!is_waiting(job.state) || !year || *year >= kNextCentury) {
    return std::nullopt;
  }
  std::string time = job.started;
  std::replace(time.begin(), time.end(), 'T', ' ');
  return time;
}

int shell_code(std::span<const JobInfo> jobs) {
  int code = 0;
  for (const JobInfo& job : jobs) {
    code = std::max(code, shell_code(job.state, job.exit));
  }
  return code;
}

}  // namespace lockstep::slurm
