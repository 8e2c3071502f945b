// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/jobs/submission.h"

#include <filesystem>
#include <fmt/format.h>
#include <set>

#include "common/base/text.h"
#include "common/os/environment.h"
#include "common/os/files.h"
#include "launcher/slurm/demand_of.h"
#include "launcher/slurm/job_file.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

// The path of a log file of the job. The task number of an array is not known yet and becomes TASK.
// In an array, %j is the ID of the single task's job, which is not known at submission. %A is the
// ID of the array.
std::string log_of(const slurm::Job& job, const char* option, const std::string& id) {
  std::string path = job.directive(option);
  if (!job.is_array) {
    replace_all(path, "%j", id);
  }
  replace_all(path, "%A", id);
  replace_all(path, "%a", "TASK");
  replace_all(path, "%x", job.name);
  return path;
}

}  // namespace

// One environment for all scripts: if two jobs had different values for one name, the last would
// win.
slurm::Client client_for(const std::vector<Script>& scripts) {
  os::Environment environment = os::environment();
  for (const Script& script : scripts) {
    for (const auto& [name, value] : slurm::secrets_of(script.settings)) {
      environment[name] = value;
    }
  }
  return slurm::Client(std::move(environment));
}

void check_here(const Script& script, const std::optional<slurm::Site>& site, bool is_submission) {
  if (site) {
    slurm::require_keys(*site, script.settings);
  }
  slurm::check_files(script.job, script.settings);
  // A modulefile is a program that the job file names: only a submission may run it.
  if (is_submission) {
    slurm::check_modules(script.job, script.settings);
  }
}

void check_there(const slurm::Client& client, const std::vector<Script>& scripts) {
  client.need_installed();
  const slurm::ClusterFacts facts = client.facts();
  for (const Script& script : scripts) {
    slurm::check(slurm::with_sbatch_variables(slurm::demand_of(script.job, script.settings),
                                              os::environment()),
                 facts);
    client.test({.script = script.text});
  }
}

void make_log_directories(const slurm::Job& job) {
  for (const char* option : {"output", "error"}) {
    const fs::path directory = fs::path(job.directive(option)).parent_path();
    // A directory with % is named after the job id, which is not known before submission.
    if (!directory.empty() && directory.string().find('%') == std::string::npos) {
      os::make_directories(directory);
    }
  }
}

// An existing script is never overwritten: it may be the only record of an earlier job.
std::string keep_script(const std::string& directory,
                        const std::string& name,
                        const std::string& text) {
  std::string plain = name;
  replace_all(plain, "/", "-");
  os::make_directories(directory);
  fs::path path = fs::path(directory) / (plain + ".sh");
  for (int i = 2; fs::exists(path); ++i) {
    path = fs::path(directory) / fmt::format("{}-{}.sh", plain, i);
  }
  os::write_file(path, text);
  return path.string();
}

std::string describe_submission(const slurm::Job& job, const std::string& id) {
  const std::string log = log_of(job, "output", id);
  const std::string errors = log_of(job, "error", id);
  std::string text = fmt::format("lockstep: submitted job {} ({}){}: {} on {}\n",
                                 id,
                                 job.name,
                                 job.is_array ? ", a job array, each task" : "",
                                 plural(job.workers(), "worker"),
                                 plural(job.nodes, "node"));
  text += fmt::format("  log     {}\n", log);
  text += errors.empty() || errors == log ? "" : fmt::format("  errors  {}\n", errors);
  text += fmt::format("  wait    lockstep status --wait {}\n", id);
  text += fmt::format("  logs    lockstep logs -f {}{}\n", id, job.is_array ? "_TASK" : "");
  return text + fmt::format("  cancel  lockstep cancel {}\n", id);
}

}  // namespace lockstep::cli
