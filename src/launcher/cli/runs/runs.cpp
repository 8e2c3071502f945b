// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/runs.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <system_error>

#include "common/base/log.h"
#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// The start time of a run, or the time of the last change of its directory if that is unknown.
double begin_of(const Run& run) {
  if (run.state) {
    return run.state->started;
  }
  std::error_code ignored;
  const auto time = fs::last_write_time(run.directory.root(), ignored);
  const auto on_the_wall = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration<double>(on_the_wall.time_since_epoch()).count();
}

}  // namespace

// Any of the three is sufficient: a program of the library that srun started directly has only
// events, and a run that has just begun has only a plan.
bool is_run(const fs::path& directory) {
  const contract::RunDirectory run(directory);
  std::error_code ignored;
  return fs::exists(run.state(), ignored) || fs::exists(run.plan(), ignored) || run.has_events();
}

Run read_run(const fs::path& directory) {
  const contract::RunDirectory run(directory);
  return {.directory = run, .name = run.name(), .state = contract::find_state(run)};
}

// A run directory can disappear or be written while the list is made; a run that cannot be read is
// skipped, and the others are shown.
std::vector<Run> find_runs(const fs::path& here) {
  std::vector<Run> runs;
  std::error_code fault;
  for (fs::directory_iterator entry(here / "runs", fault), last; !fault && entry != last;
       entry.increment(fault)) {
    if (!is_run(entry->path())) {
      continue;
    }
    try {
      runs.push_back(read_run(entry->path()));
    } catch (const Error& error) {
      log::warn("cli: skipped {}: {}", entry->path().string(), error.what());
    }
  }
  std::sort(runs.begin(), runs.end(), [](const Run& one, const Run& other) {
    const double begin = begin_of(one);
    const double others = begin_of(other);
    return begin != others ? begin > others : one.name < other.name;
  });
  return runs;
}

// Lookup order: a path, then the names and run IDs below ./runs. find_runs() is sorted, so an empty
// word matches the newest run, the first in the list.
Run run_named(const std::string& word, const fs::path& here) {
  if (!word.empty() && is_run(here / word)) {
    return read_run(here / word);
  }
  const std::vector<Run> runs = find_runs(here);
  if (word.empty() && runs.empty()) {
    throw Error(ExitCode::Usage, "cannot find a run below ./runs")
        .fact("searched", (here / "runs").string())
        .hint("pass the run directory that lockstep run has printed");
  }
  std::vector<std::string> names;
  for (const Run& run : runs) {
    if (word.empty() || run.name == word || (run.state && run.state->run_id == word)) {
      return run;
    }
    names.push_back(run.name);
  }
  throw Error(ExitCode::Usage, fmt::format("cannot find the run '{}'", word))
      .fact("searched", fmt::format("{}, {}", (here / word).string(), (here / "runs").string()))
      .hint(find_closest(word, names).value_or("lockstep status, which lists all runs"));
}

Run coming_run(const std::string& word, const fs::path& here) {
  return word.empty() || is_run(here / word) ? run_named(word, here) : read_run(here / word);
}

}  // namespace lockstep::cli
