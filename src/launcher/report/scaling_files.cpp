// SPDX-License-Identifier: Apache-2.0
// Scaling results as CSV and JSON.
#include <cmath>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/report/scaling_text.h"

// Column and field names are a stable interface (docs/scaling.md). A number that is unknown is an
// empty field in CSV and null in JSON. Predictions have no number of runs and no GPUs, because the
// model does not know them.
namespace lockstep::report {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json whole_or_null(int64_t value) {
  return value == 0 ? Json(nullptr) : Json(value);
}

Json json_of(const ScalingSize& size) {
  Json json = {{"workers", size.workers},
               {"nodes", whole_or_null(size.nodes)},
               {"gpus", size.gpus},
               {"global_batch", whole_or_null(size.global_batch)},
               {"samples_per_second", size.samples_per_second},
               {"spread", size.spread},
               {"step_seconds", size.step_seconds},
               {"speed_up", size.speed_up},
               {"efficiency", size.efficiency}};
  if (size.runs > 0) {
    json["runs"] = size.runs;
    json["exposed_communication"] = number_or_null(size.exchange_share);
    json["joules_per_sample"] = number_or_null(size.joules_per_sample);
  } else {
    json.erase("gpus");
    json["is_trusted"] = size.is_trusted;
  }
  return json;
}

Json json_of(const std::vector<ScalingSize>& sizes) {
  Json list = Json::array();
  for (const ScalingSize& size : sizes) {
    list.push_back(json_of(size));
  }
  return list;
}

Json json_of(const StepModel& model) {
  return {{"seconds_per_sample", model.parts[0]},
          {"seconds_fixed", model.parts[1]},
          {"seconds_volume", model.parts[2]},
          {"seconds_depth", model.parts[3]},
          {"sizes", model.sizes},
          {"residual", model.residual},
          {"left_out", model.left_out},
          {"largest_left_out", model.largest_left_out},
          {"trusted_workers", model.trusted_workers()}};
}

Json json_of(const StrategyScaling& strategy) {
  Json curves = Json::array();
  for (const ScalingCurve& curve : strategy.curves) {
    curves.push_back(
        {{"scaling", name_of(curve.kind)},
         {"batch", curve.kind == ScalingKind::Unknown ? Json(nullptr) : Json(curve.batch)},
         {"measured", json_of(curve.measured)},
         {"predicted", json_of(curve.predicted)}});
  }
  return {{"strategy", strategy.strategy},
          {"curves", curves},
          {"model", strategy.model ? json_of(*strategy.model) : Json(nullptr)},
          {"no_model", strategy.no_model},
          {"notes", strategy.notes}};
}

Json json_of(const RunMeasure& run) {
  return {{"name", run.name},
          {"program", run.program},
          {"strategy", run.strategy},
          {"nodes", whole_or_null(run.nodes)},
          {"workers", run.workers},
          {"gpus", run.gpus},
          {"global_batch", whole_or_null(run.global_batch)},
          {"samples_per_second", run.samples_per_second},
          {"spread", run.spread},
          {"step_seconds", run.step_seconds},
          {"exposed_communication", number_or_null(run.exchange_share)},
          {"joules_per_sample", number_or_null(run.joules_per_sample)},
          {"left_out", run.objection}};
}

std::string field(const std::optional<double>& value) {
  return value ? fmt::format("{:.9g}", *value) : "";
}

std::string csv_row(const StrategyScaling& strategy,
                    const ScalingCurve& curve,
                    const ScalingSize& size) {
  const bool is_measured = size.runs > 0;
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                     strategy.strategy,
                     name_of(curve.kind),
                     is_measured ? "measured" : "predicted",
                     size.workers,
                     size.nodes == 0 ? "" : std::to_string(size.nodes),
                     is_measured ? std::to_string(size.gpus) : "",
                     size.global_batch == 0 ? "" : std::to_string(size.global_batch),
                     is_measured ? std::to_string(size.runs) : "",
                     field(size.samples_per_second),
                     field(size.spread),
                     field(size.step_seconds),
                     field(size.speed_up),
                     field(size.efficiency),
                     field(size.exchange_share),
                     field(size.joules_per_sample),
                     size.is_trusted ? "yes" : "no");
}

}  // namespace

std::string scaling_csv(const Scaling& scaling) {
  std::string text =
      "strategy,scaling,source,workers,nodes,gpus,global_batch,runs,samples_per_second,spread,"
      "step_seconds,speed_up,efficiency,exposed_communication,joules_per_sample,trusted\n";
  for (const StrategyScaling& strategy : scaling.strategies) {
    for (const ScalingCurve& curve : strategy.curves) {
      for (const auto* sizes : {&curve.measured, &curve.predicted}) {
        for (const ScalingSize& size : *sizes) {
          text += csv_row(strategy, curve, size);
        }
      }
    }
  }
  return text;
}

std::string scaling_json(const Scaling& scaling) {
  Json json = {{"strategies", Json::array()}, {"runs", Json::array()}};
  for (const StrategyScaling& strategy : scaling.strategies) {
    json["strategies"].push_back(json_of(strategy));
  }
  for (const RunMeasure& run : scaling.runs) {
    json["runs"].push_back(json_of(run));
  }
  // Names of programs need not be valid UTF-8: invalid bytes are replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::report
