// SPDX-License-Identifier: Apache-2.0
// Predictions of the network model as text, CSV and JSON.
#include <array>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "launcher/report/network_model.h"
#include "launcher/report/table_cells.h"

// Column and field names are a stable interface (docs/scaling.md).
namespace lockstep::report {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

// What the model leaves out, apart from its inputs.
constexpr std::array kSimplifications = {
    "weak scaling: each GPU computes the same batch in the same time as the measured one",
    "data loading, evaluation and checkpoints do not slow down with the number of GPUs",
    "communication does not slow down computation, and no other job uses the network",
    "gradients of equal size become ready at equal intervals in backward; the last bucket is "
    "exposed",
    "a collective is a ring within a node and a tree between nodes, both pipelined",
};

std::string known(double value, const std::string& text) {
  return value > 0 ? text : "-";
}

// s/step has four digits and the efficiency a decimal, which show communication that is almost
// hidden.
Row row_of(const GpuEstimate& size) {
  return {std::to_string(size.gpus),
          std::to_string(size.nodes),
          known(size.batch, fmt::format("{:.0f}", size.batch)),
          known(size.samples_per_second, number_cell(size.samples_per_second)),
          fmt::format("{:.4g}", size.step_seconds),
          fmt::format("{:.2f}", size.speed_up),
          fmt::format("{:.1f}%", size.efficiency * 100),
          fmt::format("{:.3g} ms", size.exchange_seconds * 1e3),
          percent_cell(size.exposed_seconds / size.step_seconds),
          size.limit};
}

Json known_or_null(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

Json json_of(const GpuEstimate& size) {
  return {{"gpus", size.gpus},
          {"nodes", size.nodes},
          {"global_batch", known_or_null(size.batch)},
          {"samples_per_second", known_or_null(size.samples_per_second)},
          {"step_seconds", size.step_seconds},
          {"speed_up", size.speed_up},
          {"efficiency", size.efficiency},
          {"communication_seconds", size.exchange_seconds},
          {"exposed_communication", size.exposed_seconds / size.step_seconds},
          {"limit", size.limit}};
}

}  // namespace

std::string prediction_table(const NetworkPrediction& prediction) {
  std::vector<Row> rows = {{"GPUs",
                            "nodes",
                            "batch",
                            "samples/s",
                            "s/step",
                            "speed-up",
                            "effic.",
                            "communic.",
                            "exposed",
                            "limited by"}};
  for (const GpuEstimate& size : prediction.sizes) {
    rows.push_back(row_of(size));
  }
  std::vector<Row> facts;
  for (const Assumption& one : prediction.assumptions) {
    facts.push_back({"  " + one.name, one.value, one.source});
  }
  std::string text = fmt::format(
      "{}\n{}\nassumptions\n{}", prediction.title, right_aligned(rows), format_table(facts));
  for (const char* simplification : kSimplifications) {
    text += fmt::format("  {}\n", simplification);
  }
  return text;
}

std::string prediction_csv(const NetworkPrediction& prediction) {
  std::string text =
      "gpus,nodes,global_batch,samples_per_second,step_seconds,speed_up,efficiency,"
      "communication_seconds,exposed_communication,limit\n";
  const auto field = [](double value) {
    return value > 0 ? fmt::format("{:.9g}", value) : "";
  };
  for (const GpuEstimate& size : prediction.sizes) {
    text += fmt::format("{},{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{}\n",
                        size.gpus,
                        size.nodes,
                        field(size.batch),
                        field(size.samples_per_second),
                        size.step_seconds,
                        size.speed_up,
                        size.efficiency,
                        size.exchange_seconds,
                        size.exposed_seconds / size.step_seconds,
                        size.limit);
  }
  return text;
}

std::string prediction_json(const NetworkPrediction& prediction) {
  Json json = {{"title", prediction.title},
               {"sizes", Json::array()},
               {"assumptions", Json::array()},
               {"simplifications", kSimplifications}};
  for (const GpuEstimate& size : prediction.sizes) {
    json["sizes"].push_back(json_of(size));
  }
  for (const Assumption& one : prediction.assumptions) {
    json["assumptions"].push_back(
        {{"name", one.name}, {"value", one.value}, {"source", one.source}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::report
