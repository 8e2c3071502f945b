// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/scaling.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>
#include <utility>

#include "common/base/text.h"
#include "launcher/report/scaling_curves.h"

// From runs to a comparison:
//
//   RunMeasure ... -> group by strategy -> ScalingSize (same workers and batch)
//                  -> ScalingCurve (strong, weak, unknown) -> StepModel -> predictions
//
// Strategies are never mixed in a curve or model, because their communication differs.
namespace lockstep::report {
namespace {

int largest_of(const std::vector<ScalingSize>& sizes) {
  return std::ranges::max_element(sizes, {}, &ScalingSize::workers)->workers;
}

std::set<int> counts_of(const std::vector<ScalingSize>& sizes) {
  std::set<int> counts;
  for (const ScalingSize& size : sizes) {
    counts.insert(size.workers);
  }
  return counts;
}

// The number of workers per node of the largest run; 0: unknown.
// Rounded up: the last node of a run can have fewer workers.
int workers_per_node(const std::vector<ScalingSize>& sizes) {
  const auto largest = std::ranges::max_element(sizes, {}, &ScalingSize::workers);
  return largest->nodes == 0 ? 0 : (largest->workers + largest->nodes - 1) / largest->nodes;
}

std::vector<int> wanted_counts(const std::vector<ScalingSize>& sizes,
                               std::span<const PredictedSize> wanted) {
  std::set<int> counts;
  for (const PredictedSize& one : wanted) {
    counts.insert(one.is_nodes ? one.count * std::max(1, workers_per_node(sizes)) : one.count);
  }
  if (wanted.empty()) {
    for (const int factor : {2, 4, 8}) {
      counts.insert(largest_of(sizes) * factor);
    }
  }
  return {counts.begin(), counts.end()};
}

// Nothing if the batch per worker would be below one sample. A prediction changes the number of
// workers only. In a strong curve the batch per worker shrinks, in a weak one it stays.
std::optional<ScalingSize> find_prediction(const StepModel& model,
                                           const ScalingCurve& curve,
                                           int workers,
                                           int on_a_node) {
  const bool is_strong = curve.kind == ScalingKind::Strong;
  const double batch = is_strong ? curve.batch / workers : curve.batch;
  if (batch < 1) {
    return std::nullopt;
  }
  const double global = batch * workers;
  const double seconds = model.seconds(workers, batch);
  ScalingSize size{.workers = workers,
                   .nodes = on_a_node == 0 ? 0 : (workers + on_a_node - 1) / on_a_node,
                   .global_batch = std::llround(global),
                   .samples_per_second = global / seconds,
                   .spread = model.error(workers, batch),
                   .step_seconds = seconds,
                   .is_trusted = workers <= model.trusted_workers()};
  set_speed_up(size, curve.measured.front());
  return size;
}

void predict(StrategyScaling& scaling,
             const std::vector<ScalingSize>& sizes,
             std::span<const PredictedSize> wanted) {
  const std::vector<int> counts = wanted_counts(sizes, wanted);
  for (ScalingCurve& curve : scaling.curves) {
    if (curve.kind == ScalingKind::Unknown) {
      continue;
    }
    curve.predicted.reserve(counts.size());
    for (const int count : counts) {
      if (auto size = find_prediction(*scaling.model, curve, count, workers_per_node(sizes))) {
        curve.predicted.push_back(*size);
      } else {
        scaling.notes.push_back(
            fmt::format("a global batch of {} is too small for {} workers", curve.batch, count));
      }
    }
  }
}

// Additional sizes that are needed for a model: doublings of the largest.
std::string missing_sizes(const std::set<int>& counts) {
  std::vector<std::string> missing;
  int next = *counts.rbegin();
  for (size_t have = counts.size(); have < kMinSizes; ++have) {
    next *= 2;
    missing.push_back(std::to_string(next));
  }
  return join(missing, " and ");
}

// One model for all curves of a strategy: strong and weak runs differ in the batch per worker,
// which is a variable of the model, so each kind improves the prediction of the other.
void fit_model(StrategyScaling& scaling, const std::vector<ScalingSize>& sizes) {
  const std::set<int> counts = counts_of(sizes);
  if (counts.size() < kMinSizes) {
    scaling.no_model = fmt::format("{} of at least {} sizes measured; also run on {} workers",
                                   counts.size(),
                                   kMinSizes,
                                   missing_sizes(counts));
    return;
  }
  std::vector<StepTime> measured;
  measured.reserve(sizes.size());
  for (const ScalingSize& size : sizes) {
    if (size.global_batch == 0) {
      scaling.no_model = "the runs do not report their global batch";
      return;
    }
    measured.push_back({.workers = static_cast<double>(size.workers),
                        .batch = static_cast<double>(size.global_batch) / size.workers,
                        .seconds = size.step_seconds});
  }
  scaling.model = find_model(measured);
}

// Doubts do not prevent the comparison; they are printed below the table.
void note_doubts(StrategyScaling& scaling,
                 const std::vector<ScalingSize>& sizes,
                 std::span<const RunMeasure> runs) {
  std::set<std::string> programs;
  for (const RunMeasure& run : runs) {
    programs.insert(run.program);
  }
  if (programs.size() > 1) {
    const std::vector<std::string> names(programs.begin(), programs.end());
    scaling.notes.push_back("the runs are of different programs: " + join(names, ", "));
  }
  const bool is_one_node =
      std::ranges::all_of(sizes, [](const ScalingSize& size) { return size.nodes <= 1; });
  if (scaling.model && is_one_node) {
    scaling.notes.emplace_back(
        "all runs were on one node: the model does not include the network between nodes");
  }
}

StrategyScaling compare_strategy(const std::string& name,
                                 std::span<const RunMeasure> runs,
                                 std::span<const PredictedSize> wanted) {
  const std::vector<ScalingSize> sizes = sizes_of(runs);
  StrategyScaling scaling{.strategy = name, .curves = curves_of(sizes)};
  fit_model(scaling, sizes);
  note_doubts(scaling, sizes, runs);
  if (scaling.model) {
    predict(scaling, sizes, wanted);
  }
  return scaling;
}

}  // namespace

std::string name_of(ScalingKind kind) {
  switch (kind) {
    case ScalingKind::Strong:
      return "strong";
    case ScalingKind::Weak:
      return "weak";
    case ScalingKind::Unknown:
      break;
  }
  return "unknown";
}

Scaling compare_runs(std::vector<RunMeasure> runs, std::span<const PredictedSize> sizes) {
  std::map<std::string, std::vector<RunMeasure>> by_strategy;
  for (const RunMeasure& run : runs) {
    if (run.objection.empty()) {
      by_strategy[run.strategy.empty() ? kUnknownStrategy : run.strategy].push_back(run);
    }
  }
  Scaling scaling;
  scaling.strategies.reserve(by_strategy.size());
  for (const auto& [name, of_strategy] : by_strategy) {
    scaling.strategies.push_back(compare_strategy(name, of_strategy, sizes));
  }
  scaling.runs = std::move(runs);
  return scaling;
}

}  // namespace lockstep::report
