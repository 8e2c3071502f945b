// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "contract/run_directory.h"
#include "contract/run_state.h"

// Runs as their directories show them, for status, logs and cancel.
namespace lockstep::cli {

struct Run {
  contract::RunDirectory directory;
  std::string name;                         // of the directory
  std::optional<contract::RunState> state;  // absent: not started by lockstep run, or an older one
};

// Whether somebody has run something there.
bool is_run(const std::filesystem::path& directory);

Run read_run(const std::filesystem::path& directory);

// All runs below `here`/runs, the newest first. What cannot be read is left out with a warning.
std::vector<Run> find_runs(const std::filesystem::path& here);

// The run that a word on the command line means, seen from the directory `here`: a run directory, a
// name or run id below `here`/runs; an empty word is the newest below `here`/runs. Throws an Error
// (64) with the closest name if there is none.
Run run_named(const std::string& word, const std::filesystem::path& here);

// The same, but a directory that is no run yet may become one.
Run coming_run(const std::string& word, const std::filesystem::path& here);

// Seconds since the epoch, now.
double wall_time();

}  // namespace lockstep::cli
