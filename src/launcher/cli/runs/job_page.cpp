// SPDX-License-Identifier: Apache-2.0
// The output of `lockstep status` for a Slurm job.
#include <algorithm>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "launcher/cli/runs/jobs.h"
#include "launcher/cli/runs/status.h"
#include "launcher/slurm/follow.h"
#include "launcher/slurm/reasons.h"
#include "launcher/slurm/time_limit.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;
using slurm::JobInfo;

// A line of the page; empty for an empty text.
std::string line(std::string_view label, std::string_view text) {
  return text.empty() ? "" : fmt::format("{:<10} {}\n", label, text);
}

// Slurm prints local times as 2024-01-31T09:30:00.
std::string plain_time(std::string time) {
  std::replace(time.begin(), time.end(), 'T', ' ');
  return time;
}

std::string state_of(const JobInfo& job) {
  std::string word = job.state == slurm::JobState::Unknown ? job.state_word
                                                           : std::string(slurm::name_of(job.state));
  if (slurm::is_waiting(job.state) && !job.reason.empty()) {
    return fmt::format("{}: {}", word, slurm::describe_reason(job.reason));
  }
  if (slurm::is_end(job.state)) {
    // The page shows the job id in another line.
    return slurm::end_sentence({&job, 1}).substr(fmt::format("job {} ", job.id).size());
  }
  return word;
}

std::string time_of(const JobInfo& job) {
  return slurm::is_waiting(job.state) ? "" : slurm::elapsed_of(job);
}

std::string nodes_of(const JobInfo& job) {
  if (job.nodes.empty()) {
    return job.node_count == 0 ? "" : fmt::format("{} requested", job.node_count);
  }
  return fmt::format("{}: {}", job.node_count, job.nodes);
}

std::string page_of(const JobInfo& job) {
  std::string page = line("job", job.id);
  page += line("name", job.name);
  page += line("state", state_of(job));
  if (slurm::is_waiting(job.state)) {
    page += line("try", slurm::advice_for(job.reason, job.id));
  }
  page += line("user", job.user);
  page += line("partition", job.partition);
  page += line("account", job.account);
  page += line("nodes", nodes_of(job));
  page += line("submitted", plain_time(job.submitted));
  if (slurm::is_waiting(job.state)) {
    page += line("expected", slurm::find_estimate(job).value_or(""));
  } else {
    page += line("started", plain_time(job.started));
  }
  if (slurm::is_end(job.state)) {
    page += line("ended", plain_time(job.ended));
  }
  page += line("time", time_of(job));
  page += line("restarts", job.restarts == 0 ? "" : std::to_string(job.restarts));
  page += line("directory", job.directory);
  page += line("output", job.output);
  page += line("errors", job.errors == job.output ? "" : job.errors);
  if (slurm::is_end(job.state)) {
    page += line("exit code", std::to_string(slurm::shell_code(job.state, job.exit)));
  }
  return page;
}

std::string table_of(std::span<const JobInfo> tasks) {
  std::vector<std::vector<std::string>> rows = {{"job", "state", "nodes", "time", "exit"}};
  for (const JobInfo& task : tasks) {
    const std::string code =
        slurm::is_end(task.state) ? std::to_string(slurm::shell_code(task.state, task.exit)) : "-";
    const std::string time = time_of(task);
    rows.push_back({task.id,
                    std::string(slurm::name_of(task.state)),
                    task.nodes.empty() ? "-" : task.nodes,
                    time.empty() ? "-" : time,
                    code});
  }
  return format_table(rows);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// Slurm reports the expected start of a waiting job in the same field as the start of a running
// one; here they are separate keys.
Json json_of(const JobInfo& job) {
  const bool is_waiting = slurm::is_waiting(job.state);
  const bool is_over = slurm::is_end(job.state);
  const bool has_limit = job.limit_seconds && *job.limit_seconds != slurm::kUnlimited;
  return {{"job", job.id},
          {"name", job.name},
          {"user", job.user},
          {"partition", job.partition},
          {"account", text_or_null(job.account)},
          {"state", slurm::name_of(job.state)},
          {"slurm_state", job.state_word},
          {"reason", text_or_null(job.reason)},
          {"meaning",
           job.reason.empty() ? Json(nullptr) : Json(slurm::explain_reason(job.reason).meaning)},
          {"nodes", text_or_null(job.nodes)},
          {"node_count", job.node_count},
          {"submitted", text_or_null(job.submitted)},
          {"expected_start", is_waiting ? text_or_null(job.started) : Json(nullptr)},
          {"started", is_waiting ? Json(nullptr) : text_or_null(job.started)},
          {"ended", is_over ? text_or_null(job.ended) : Json(nullptr)},
          {"elapsed_seconds", job.run_seconds ? Json(*job.run_seconds) : Json(nullptr)},
          {"limit_seconds", has_limit ? Json(*job.limit_seconds) : Json(nullptr)},
          {"restarts", job.restarts},
          {"directory", text_or_null(job.directory)},
          {"output", text_or_null(job.output)},
          {"errors", text_or_null(job.errors)},
          {"exit_code", is_over ? Json(slurm::shell_code(job.state, job.exit)) : Json(nullptr)}};
}

}  // namespace

std::string job_page(const JobArgument& job, double now) {
  if (job.tasks.size() > 1) {
    return table_of(job.tasks);
  }
  std::string page = page_of(job.tasks.front());
  if (job.run) {
    page += "\n" + status_page(*job.run, now);
  }
  return page;
}

std::string job_json(const JobArgument& job, double now) {
  Json all = Json::array();
  for (const JobInfo& task : job.tasks) {
    all.push_back(json_of(task));
  }
  if (job.tasks.size() > 1) {
    return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  all.front()["run"] = job.run ? Json::parse(status_json(*job.run, now)) : Json(nullptr);
  return all.front().dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::cli
