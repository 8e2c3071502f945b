// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/cli/runs/runs.h"

namespace lockstep::cli {

// A run to compare, with its strategy from the job file; empty: taken from the events of the run.
struct ComparedRun {
  contract::RunDirectory directory;
  std::string strategy = {};
};

// The runs for a command-line argument: one run, as for lockstep watch, or all runs in a directory.
// Throws an Error (64).
std::vector<ComparedRun> compared_runs(const std::string& word);

// The runs of the jobs that a job file defines with `mode: scaling-test`.
struct ScalingTest {
  std::vector<ComparedRun> runs;
  std::vector<std::string> missing;  // names of jobs without a run
};

// Searches the run directories of the jobs (key run_dir), relative to `here`. Throws an Error (64)
// if no job has run yet or if jobs share a run directory.
ScalingTest find_scaling_test(const std::string& file, const std::filesystem::path& here);

// The existing directories that match a path with shell variables ("runs/x-$SLURM_JOB_ID"), sorted.
std::vector<std::filesystem::path> find_expansions(const std::filesystem::path& here,
                                                   const std::string& path);

}  // namespace lockstep::cli
