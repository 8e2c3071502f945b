// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/run_directory.h"
#include "common/contract/run_state.h"

// Finds runs by their run directories, for status, logs, cancel and other subcommands.
namespace lockstep::cli {

struct Run {
  contract::RunDirectory directory;
  std::string name;                         // of the directory
  std::optional<contract::RunState> state;  // absent: not started by lockstep run, or an older one
};

// Whether the directory contains a run.
bool is_run(const std::filesystem::path& directory);

Run read_run(const std::filesystem::path& directory);

// All runs below `here`/runs, newest first. Unreadable runs are skipped with a warning.
std::vector<Run> find_runs(const std::filesystem::path& here);

// Finds the run for a command-line argument: a run directory (relative to `here`), or a name or run
// id below `here`/runs. An empty word means the newest run. Throws an Error (64) with the closest
// name if there is no such run.
Run run_named(const std::string& word, const std::filesystem::path& here);

// Like run_named, but also accepts the directory of a run that has not started yet.
Run coming_run(const std::string& word, const std::filesystem::path& here);

}  // namespace lockstep::cli
