// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/scaling_text.h"

#include <algorithm>
#include <fmt/format.h>

#include "launcher/report/table_cells.h"

namespace lockstep::report {
namespace {

using Row = std::vector<std::string>;

std::string count(int64_t value) {
  return value == 0 ? "-" : std::to_string(value);
}

// "guess" is a prediction beyond StepModel::trusted_workers().
std::string source_of(const ScalingSize& size) {
  if (size.runs > 0) {
    return std::to_string(size.runs);
  }
  return size.is_trusted ? "model" : "guess";
}

Row row_of(const ScalingSize& size) {
  return {std::to_string(size.workers),
          count(size.nodes),
          count(size.gpus),
          count(size.global_batch),
          source_of(size),
          number_cell(size.samples_per_second),
          percent_cell(size.spread),
          number_cell(size.step_seconds),
          fmt::format("{:.2f}", size.speed_up),
          percent_cell(size.efficiency),
          size.exchange_share ? percent_cell(*size.exchange_share) : "-",
          size.joules_per_sample ? number_cell(*size.joules_per_sample) : "-"};
}

std::string table_of(const ScalingCurve& curve) {
  std::vector<Row> rows = {{"workers",
                            "nodes",
                            "GPUs",
                            "batch",
                            "runs",
                            "samples/s",
                            "+-",
                            "s/step",
                            "speed-up",
                            "effic.",
                            "exposed",
                            "J/sample"}};
  rows.reserve(1 + curve.measured.size() + curve.predicted.size());
  for (const auto* sizes : {&curve.measured, &curve.predicted}) {
    std::ranges::transform(*sizes, std::back_inserter(rows), row_of);
  }
  return right_aligned(rows);
}

bool has_guess(const StrategyScaling& strategy) {
  return std::ranges::any_of(strategy.curves, [](const ScalingCurve& curve) {
    return std::ranges::any_of(curve.predicted,
                               [](const ScalingSize& size) { return !size.is_trusted; });
  });
}

bool is_known(const StrategyScaling& strategy, std::optional<double> ScalingSize::*field) {
  return std::ranges::any_of(strategy.curves, [&](const ScalingCurve& curve) {
    return std::ranges::any_of(curve.measured,
                               [&](const ScalingSize& size) { return (size.*field).has_value(); });
  });
}

void describe_model(const StrategyScaling& strategy, std::vector<std::string>& remarks) {
  const StepModel& model = *strategy.model;
  remarks.push_back("model: step = " + describe(model.parts));
  remarks.push_back(
      fmt::format("fitted to {} sizes, error {}; leave-one-out error {}, of the largest size {}",
                  model.sizes,
                  percent_cell(model.residual),
                  percent_cell(model.left_out),
                  percent_cell(model.largest_left_out)));
  const double trusted = model.trusted_workers();
  if (trusted <= model.largest) {
    remarks.emplace_back("too inaccurate for predictions: repeat these sizes with longer runs");
  } else {
    remarks.push_back(fmt::format("reliable up to {:.0f} workers, {:.0f} times the largest run{}",
                                  trusted,
                                  trusted / model.largest,
                                  has_guess(strategy) ? "; larger sizes are marked as guess" : ""));
  }
}

}  // namespace

std::string title_of(const StrategyScaling& strategy, const ScalingCurve& curve) {
  const std::string name =
      strategy.strategy == kUnknownStrategy ? "unknown strategy" : strategy.strategy;
  switch (curve.kind) {
    case ScalingKind::Strong:
      return fmt::format("{}, strong scaling, global batch {}", name, curve.batch);
    case ScalingKind::Weak:
      return fmt::format("{}, weak scaling, {:.6g} per worker", name, curve.batch);
    case ScalingKind::Unknown:
      break;
  }
  return curve.measured.size() == 1 ? name + ", one size"
                                    : name + ", neither strong nor weak: batches differ";
}

// Missing columns are explained once per strategy instead of in each table.
std::vector<std::string> remarks_of(const StrategyScaling& strategy) {
  std::vector<std::string> remarks;
  if (!is_known(strategy, &ScalingSize::exchange_share)) {
    remarks.emplace_back(
        "exposed communication: unknown, the events do not contain exchange_seconds");
  }
  if (!is_known(strategy, &ScalingSize::joules_per_sample)) {
    remarks.emplace_back(
        "energy per sample: unknown, the samples do not contain energy or power of GPUs");
  }
  if (strategy.model) {
    describe_model(strategy, remarks);
  } else {
    remarks.push_back("no prediction: " + strategy.no_model);
  }
  remarks.insert(remarks.end(), strategy.notes.begin(), strategy.notes.end());
  return remarks;
}

std::string scaling_table(const Scaling& scaling) {
  std::string text;
  for (const StrategyScaling& strategy : scaling.strategies) {
    for (const ScalingCurve& curve : strategy.curves) {
      text += fmt::format("{}\n{}\n", title_of(strategy, curve), table_of(curve));
    }
    text.pop_back();
    for (const std::string& remark : remarks_of(strategy)) {
      text += fmt::format("  {}\n", remark);
    }
    text += "\n";
  }
  for (const RunMeasure& run : scaling.runs) {
    if (!run.objection.empty()) {
      text += fmt::format("skipped: {}: {}\n", run.name, run.objection);
    }
  }
  text.erase(text.find_last_not_of('\n') + 1);
  return text + "\n";
}

}  // namespace lockstep::report
