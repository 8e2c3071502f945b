// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/jobs/scaling_runs.h"

#include <algorithm>
#include <fmt/format.h>
#include <regex>
#include <set>
#include <system_error>
#include <utility>

#include "common/base/text.h"
#include "launcher/cli/jobs/job_layers.h"
#include "launcher/cli/runs/watched_run.h"
#include "launcher/config/yaml.h"
#include "launcher/slurm/sweep.h"
#include "lockstep/error.h"

// Finds the runs of a scaling test without a record of what was submitted. The job file is expanded
// again, as lockstep submit does, and its run_dir is used as a pattern: variables that the shell of
// the job expands ($SLURM_JOB_ID) match any number. All runs of repeated submissions are found.
namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// A regular expression for a name with shell variables: SLURM_ variables match numbers, other
// variables match anything. For example "$USER-$SLURM_JOB_ID" becomes ".*-[0-9_]+". Every other
// character stands for itself.
std::regex regex_of(const std::string& name) {
  static const std::regex kVariable(R"(\$(\{[^}]*\}|\w+))");
  static const std::regex kSpecial(R"([.^$|()\[\]{}*+?\\])");
  std::string pattern;
  auto rest = name.cbegin();
  for (std::sregex_iterator found(name.begin(), name.end(), kVariable), last; found != last;
       ++found) {
    pattern += std::regex_replace(std::string(rest, (*found)[0].first), kSpecial, R"(\$&)");
    pattern += (*found)[1].str().find("SLURM_") == std::string::npos ? ".*" : "[0-9_]+";
    rest = (*found)[0].second;
  }
  return std::regex(pattern +
                    std::regex_replace(std::string(rest, name.cend()), kSpecial, R"(\$&)"));
}

std::vector<fs::path> children_like(const fs::path& directory, const std::string& name) {
  if (name.find('$') == std::string::npos) {
    return {directory / name};
  }
  const std::regex pattern = regex_of(name);
  std::vector<fs::path> found;
  std::error_code fault;
  for (fs::directory_iterator entry(directory, fault), last; !fault && entry != last;
       entry.increment(fault)) {
    if (std::regex_match(entry->path().filename().string(), pattern)) {
      found.push_back(entry->path());
    }
  }
  std::ranges::sort(found);
  return found;
}

// The settings of a job of the test that identify its run.
struct TestedJob {
  std::string name;
  std::string strategy;
  std::string run_dir;
  std::string run_dir_source;
};

// Jobs with the same pattern could not be distinguished by their directories, so that is an error.
std::vector<TestedJob> jobs_of(slurm::JobSettings settings) {
  settings.set("mode", config::scalar("scaling-test", "lockstep scaling"));
  std::vector<TestedJob> jobs;
  std::set<std::string> places;
  for (const slurm::JobSettings& one : slurm::expand_mode(settings)) {
    jobs.push_back({.name = one.text("job_name"),
                    .strategy = one.text("distributed_strategy"),
                    .run_dir = one.text("run_dir"),
                    .run_dir_source = one.source_of("run_dir")});
    if (!places.insert(jobs.back().run_dir).second) {
      throw Error(ExitCode::Usage, "the jobs of the scaling test share a run directory")
          .fact("run_dir",
                fmt::format("'{}' for several jobs", jobs.back().run_dir),
                jobs.back().run_dir_source)
          .hint("run_dir: runs/${job_name}-$SLURM_JOB_ID");
    }
  }
  return jobs;
}

Error nothing_has_run(const std::string& file,
                      const slurm::JobSettings& settings,
                      const TestedJob& job,
                      const fs::path& here) {
  Error error(ExitCode::Usage, fmt::format("cannot find a run of the scaling test of {}", file));
  error.fact("missing", (here / job.run_dir).string() + " and others", job.run_dir_source);
  const std::string launcher = settings.text("launcher");
  if (launcher != "lockstep") {
    error.fact(
        "launcher", launcher + ", which creates no run directory", settings.source_of("launcher"));
  }
  const bool is_mode = settings.text("mode") == "scaling-test";
  error.hint(fmt::format("lockstep submit -c {}{}{}",
                         quote_for_shell(file),
                         is_mode ? "" : " --mode scaling-test",
                         launcher == "lockstep" ? "" : " --launcher lockstep"));
  return error;
}

}  // namespace

// Expands one component of the path after the other: a directory is listed only if its component
// has variables. The value of a variable must not contain a slash.
std::vector<fs::path> find_expansions(const fs::path& here, const std::string& path) {
  std::vector<fs::path> found = {here};
  for (const fs::path& name : fs::path(path)) {
    std::vector<fs::path> deeper;
    for (const fs::path& directory : found) {
      const std::vector<fs::path> children = children_like(directory, name.string());
      deeper.insert(deeper.end(), children.begin(), children.end());
    }
    found = std::move(deeper);
  }
  std::erase_if(found, [](const fs::path& directory) {
    std::error_code ignored;
    return !fs::is_directory(directory, ignored);
  });
  return found;
}

std::vector<ComparedRun> compared_runs(const std::string& word) {
  const fs::path directory = fs::current_path() / word;
  std::error_code fault;
  std::vector<fs::path> runs;
  if (!is_run(directory)) {
    for (fs::directory_iterator entry(directory, fault), last; !fault && entry != last;
         entry.increment(fault)) {
      if (is_run(entry->path())) {
        runs.push_back(entry->path());
      }
    }
  }
  if (runs.empty()) {
    return {{.directory = watched_run(word).directory}};
  }
  std::ranges::sort(runs);
  std::vector<ComparedRun> found;
  found.reserve(runs.size());
  for (const fs::path& run : runs) {
    found.push_back({.directory = contract::RunDirectory(run)});
  }
  return found;
}

ScalingTest find_scaling_test(const std::string& file, const fs::path& here) {
  const slurm::JobSettings settings = read_job_layers(file, {}).settings;
  const std::vector<TestedJob> jobs = jobs_of(settings);
  ScalingTest test;
  for (const TestedJob& job : jobs) {
    const size_t before = test.runs.size();
    for (const fs::path& directory : find_expansions(here, job.run_dir)) {
      if (is_run(directory)) {
        test.runs.push_back(
            {.directory = contract::RunDirectory(directory), .strategy = job.strategy});
      }
    }
    if (test.runs.size() == before) {
      test.missing.push_back(job.name);
    }
  }
  if (test.runs.empty()) {
    throw nothing_has_run(file, settings, jobs.front(), here);
  }
  return test;
}

}  // namespace lockstep::cli
