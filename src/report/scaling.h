// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/run_measure.h"
#include "report/step_model.h"

// How the speed of a training grows with its workers, docs/scaling.md.
namespace lockstep::report {

// All runs of one number of workers and one batch, or what the model says of such.
struct ScalingSize {
  int workers = 0;
  int nodes = 0;  // 0: not told
  int gpus = 0;
  int64_t global_batch = 0;       // 0: not told
  int runs = 0;                   // 0: predicted
  double samples_per_second = 0;  // the median of the runs
  // Of the runs, half of what lies between the slowest and the fastest; of one run, see
  // RunMeasure; of a prediction, how wrong it may be. A share.
  double spread = 0;
  double step_seconds = 0;
  double speed_up = 0;    // against the smallest size of the curve
  double efficiency = 0;  // speed-up by how many times the workers
  std::optional<double> exchange_share = {};
  std::optional<double> joules_per_sample = {};
  bool is_trusted = true;  // of a prediction: not too far from what was measured

  bool operator==(const ScalingSize&) const = default;
};

enum class ScalingKind {
  Strong,   // one global batch
  Weak,     // one batch per worker
  Unknown,  // batches are not told, or each size has another
};

// "strong"
std::string name_of(ScalingKind kind);

struct ScalingCurve {
  ScalingKind kind = ScalingKind::Unknown;
  double batch = 0;                         // global (strong) or per worker (weak)
  std::vector<ScalingSize> measured = {};   // ascending by workers
  std::vector<ScalingSize> predicted = {};  // ascending by workers
};

struct StrategyScaling {
  std::string strategy = {};  // "not told" where none was
  std::vector<ScalingCurve> curves = {};
  std::optional<StepModel> model = {};
  std::string no_model = {};            // why there is none, and what to run
  std::vector<std::string> notes = {};  // what a reader should know of the numbers
};

struct Scaling {
  std::vector<StrategyScaling> strategies = {};  // by name
  std::vector<RunMeasure> runs = {};             // in the order given
};

// Sizes to predict; a number of nodes is that many times the workers that the largest run had on
// each of its nodes.
struct PredictedSize {
  int count = 0;
  bool is_nodes = false;
};

// Compares the runs that measure something; without `sizes`, predicts doublings of the largest up
// to eight times.
Scaling compare_runs(std::vector<RunMeasure> runs, std::span<const PredictedSize> sizes);

}  // namespace lockstep::report
