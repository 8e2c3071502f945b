// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/report/run_measure.h"
#include "launcher/report/step_model.h"

// Compares the speed of runs with different numbers of workers (docs/scaling.md).
namespace lockstep::report {

// All runs with the same number of workers and the same batch, or a prediction of the model.
struct ScalingSize {
  int workers = 0;
  int nodes = 0;  // 0: unknown
  int gpus = 0;
  int64_t global_batch = 0;       // 0: unknown
  int runs = 0;                   // 0: predicted
  double samples_per_second = 0;  // median of the runs
  // Relative uncertainty. For several runs, half of the range from the slowest to the fastest; for
  // one run, RunMeasure::spread; for a prediction, its estimated error.
  double spread = 0;
  double step_seconds = 0;
  double speed_up = 0;    // against the smallest size of the curve
  double efficiency = 0;  // speed-up divided by the increase in workers
  std::optional<double> exchange_share = {};
  std::optional<double> joules_per_sample = {};
  bool is_trusted = true;  // false: a prediction too far beyond the measurements

  bool operator==(const ScalingSize&) const = default;
};

enum class ScalingKind {
  Strong,   // same global batch
  Weak,     // same batch per worker
  Unknown,  // batches are unknown, or differ in both respects
};

// "strong"
std::string name_of(ScalingKind kind);

struct ScalingCurve {
  ScalingKind kind = ScalingKind::Unknown;
  double batch = 0;                         // global (strong) or per worker (weak)
  std::vector<ScalingSize> measured = {};   // ascending by workers
  std::vector<ScalingSize> predicted = {};  // ascending by workers
};

// The value in CSV and JSON files, which is a stable interface.
inline constexpr const char* kUnknownStrategy = "not told";  // language: allow

struct StrategyScaling {
  std::string strategy = {};  // kUnknownStrategy if the run does not record it
  std::vector<ScalingCurve> curves = {};
  std::optional<StepModel> model = {};
  std::string no_model = {};            // why there is no model, and which runs are missing
  std::vector<std::string> notes = {};  // caveats about the numbers
};

struct Scaling {
  std::vector<StrategyScaling> strategies = {};  // by name
  std::vector<RunMeasure> runs = {};             // in the order given
};

// A size to predict. A number of nodes is converted with the workers per node of the largest run.
struct PredictedSize {
  int count = 0;
  bool is_nodes = false;
};

// Compares the runs that can be used. Predicts `sizes`; if there are none, two, four and eight
// times the largest size.
Scaling compare_runs(std::vector<RunMeasure> runs, std::span<const PredictedSize> sizes);

}  // namespace lockstep::report
