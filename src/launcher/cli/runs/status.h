// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "launcher/cli/runs/runs.h"

// The output of `lockstep status`. The functions only read run directories.
namespace lockstep::cli {

// The newest step of rank 0, from its events or from the metrics that --metric found in its output.
struct RunProgress {
  std::optional<int64_t> step;
  std::optional<double> loss;
  std::optional<double> samples_per_second;
};
std::optional<RunProgress> find_progress(const contract::RunDirectory& run);

// "running", "done", "lost" ...
std::string state_word(const Run& run, double now);

// "lost: the launcher no longer exists (host node-a, last update 12.0 s ago)"; otherwise only the
// word.
std::string state_sentence(const Run& run, double now);

// One row per run.
std::string status_table(std::span<const Run> runs, double now);

// The state of one run.
std::string status_page(const Run& run, double now);

// JSON with the content of state.json, the directory, the state word and the progress.
std::string status_json(const Run& run, double now);
std::string status_json(std::span<const Run> runs, double now);

}  // namespace lockstep::cli
