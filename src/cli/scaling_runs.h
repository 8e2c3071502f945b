// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/runs.h"

namespace lockstep::cli {

// A run to compare, and its strategy as the job's file has it; empty: the run must tell.
struct ComparedRun {
  contract::RunDirectory directory;
  std::string strategy = {};
};

// The runs that a word of the command line means: one, as for lockstep watch, or all in a directory
// of runs. Throws an Error (64).
std::vector<ComparedRun> compared_runs(const std::string& word);

// What has run of the jobs that a file makes with `mode: scaling-test`.
struct ScalingTest {
  std::vector<ComparedRun> runs;
  std::vector<std::string> missing;  // names of jobs without a run
};

// Looks in the jobs' run directories, as `run_dir` names them, seen from `here`. Throws an Error
// (64) where nothing has run yet, and where jobs share a directory.
ScalingTest find_scaling_test(const std::string& file, const std::filesystem::path& here);

// The directories that a path with shell variables ("runs/x-$SLURM_JOB_ID") may have become, in
// order.
std::vector<std::filesystem::path> find_expansions(const std::filesystem::path& here,
                                                   const std::string& path);

}  // namespace lockstep::cli
