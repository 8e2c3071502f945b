// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cli/runs.h"

// What `lockstep status` tells: pure, but for the run directories that it reads.
namespace lockstep::cli {

// The newest step that rank 0 has reported, or that --metric has found in what it says.
struct Progress {
  std::optional<int64_t> step;
  std::optional<double> loss;
  std::optional<double> samples_per_second;
};
std::optional<Progress> find_progress(const contract::RunDirectory& run);

// "running", "done", "lost" ...
std::string state_word(const Run& run, double now);

// "lost: its launcher is gone (host node-a, last sign 12.0 s ago)"; for others the word alone.
std::string state_sentence(const Run& run, double now);

// One row per run.
std::string status_table(std::span<const Run> runs, double now);

// All about one run.
std::string status_page(const Run& run, double now);

// The same for programs: what state.json says, the directory, the word and the progress.
std::string status_json(const Run& run, double now);
std::string status_json(std::span<const Run> runs, double now);

}  // namespace lockstep::cli
