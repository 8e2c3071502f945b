// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/run_json.h"

#include <fmt/format.h>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace lockstep::monitor {
namespace {

using Json = nlohmann::ordered_json;

// Strings written by programs need not be valid UTF-8: invalid bytes are replaced. NaN becomes
// null.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename T>
Json maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Null for a value below `minimum`, which stands for an unknown number.
template <typename T>
Json from(T value, T minimum) {
  return value >= minimum ? Json(value) : Json(nullptr);
}

Json latest_of(const Snapshot& snapshot) {
  return {{"step", from<int64_t>(snapshot.step, 0)},
          {"steps", from<int64_t>(snapshot.steps, 1)},
          {"epoch", maybe(snapshot.epoch)},
          {"loss", maybe(snapshot.loss)},
          {"learning_rate", maybe(snapshot.learning_rate)},
          {"samples_per_second", maybe(snapshot.samples_per_second)},
          {"gradient_norm", maybe(snapshot.gradient_norm)},
          {"step_seconds", maybe(snapshot.step_seconds)},
          {"seconds_left", maybe(snapshot.seconds_left)},
          {"evaluation_loss", maybe(snapshot.evaluation_loss)},
          {"accuracy", maybe(snapshot.accuracy)},
          {"top5", maybe(snapshot.top5)},
          {"evaluations", snapshot.evaluations},
          {"checkpoints", snapshot.checkpoints},
          {"checkpoint_step", from<int64_t>(snapshot.checkpoint_step, 0)},
          {"restarts", snapshot.restarts},
          {"first_step_seconds", maybe(snapshot.first_step_seconds)},
          {"bad_lines", snapshot.bad_lines}};
}

// RankView::node is an index into the nodes of the same snapshot, but -1 for ranks without samples.
const NodeView* find_node(const Snapshot& snapshot, const RankView& rank) {
  const bool is_known = rank.node >= 0 && static_cast<size_t>(rank.node) < snapshot.nodes.size();
  return is_known ? &snapshot.nodes[static_cast<size_t>(rank.node)] : nullptr;
}

// The first GPU of a worker; most workers have one.
const contract::GpuSample* find_gpu_of(const NodeView* node, const RankView& rank) {
  return node != nullptr && !rank.gpus.empty() ? find_gpu(*node, rank.gpus.front()) : nullptr;
}

void add_device(Json& columns, const RankView& rank, const contract::GpuSample* gpu) {
  const auto add = [&columns](const char* name, Json value) {
    columns[name].push_back(std::move(value));
  };
  add("gpu", gpu != nullptr ? Json(fmt::format("{}: {}", gpu->index, gpu->name)) : Json(nullptr));
  add("utilisation", gpu != nullptr ? maybe(gpu->utilisation) : Json(nullptr));
  add("memory_bytes",
      gpu != nullptr && gpu->memory_bytes ? maybe(gpu->memory_bytes) : maybe(rank.memory_bytes));
  add("memory_total_bytes", gpu != nullptr ? maybe(gpu->memory_total_bytes) : Json(nullptr));
  add("power_watts", gpu != nullptr ? maybe(gpu->power_watts) : Json(nullptr));
  add("temperature", gpu != nullptr ? maybe(gpu->temperature) : Json(nullptr));
}

// By column, so that the names are not repeated for thousands of ranks.
Json workers_of(const Snapshot& snapshot) {
  Json columns = Json::object();
  for (const char* name : {"rank",
                           "host",
                           "gpu",
                           "step",
                           "behind",
                           "step_seconds",
                           "data_seconds",
                           "compute_seconds",
                           "exchange_seconds",
                           "checkpoint_seconds",
                           "utilisation",
                           "memory_bytes",
                           "memory_total_bytes",
                           "power_watts",
                           "temperature",
                           "cores",
                           "straggler",
                           "ended"}) {
    columns[name] = Json::array();
  }
  for (const RankView& rank : snapshot.ranks) {
    const NodeView* node = find_node(snapshot, rank);
    columns["rank"].push_back(rank.rank);
    columns["host"].push_back(node != nullptr ? node->sample.host : "");
    columns["step"].push_back(rank.step);
    columns["behind"].push_back(rank.steps_behind);
    columns["step_seconds"].push_back(maybe(rank.step_seconds));
    columns["data_seconds"].push_back(maybe(rank.split.data));
    columns["compute_seconds"].push_back(maybe(rank.split.compute));
    columns["exchange_seconds"].push_back(maybe(rank.split.exchange));
    columns["checkpoint_seconds"].push_back(maybe(rank.split.checkpoint));
    add_device(columns, rank, find_gpu_of(node, rank));
    columns["cores"].push_back(maybe(rank.cores));
    columns["straggler"].push_back(rank.is_straggler ? Json(rank.why_straggler) : Json(nullptr));
    columns["ended"].push_back(rank.has_ended);
  }
  return columns;
}

}  // namespace

std::string runs_json(const std::vector<RunName>& runs) {
  Json list = Json::array();
  for (const RunName& run : runs) {
    list.push_back(
        {{"id", run.id}, {"name", run.name}, {"directory", run.directory}, {"status", run.status}});
  }
  return text_of({{"runs", list}});
}

std::string snapshot_json(const RunName& run,
                          const Snapshot& snapshot,
                          const std::vector<std::string>& series) {
  std::string no_gpus;
  for (const NodeView& node : snapshot.nodes) {
    no_gpus = no_gpus.empty() ? node.sample.no_gpus : no_gpus;
  }
  const bool has_updated = snapshot.updated > 0;
  return text_of({{"run",
                   {{"id", run.id},
                    {"name", run.name},
                    {"directory", run.directory},
                    {"status", run.status},
                    {"attempt", snapshot.attempt},
                    {"world_size", snapshot.world_size},
                    {"nodes", snapshot.nodes.size()},
                    {"strategy", snapshot.strategy},
                    {"transport", snapshot.transport},
                    {"command", snapshot.command},
                    {"slurm_job", snapshot.job},
                    {"started", snapshot.started > 0 ? Json(snapshot.started) : Json(nullptr)},
                    {"updated", has_updated ? Json(snapshot.updated) : Json(nullptr)},
                    {"ended", maybe(snapshot.ended)},
                    {"exit_code", maybe(snapshot.exit_code)}}},
                  {"latest", latest_of(snapshot)},
                  {"output", snapshot.output_metrics},
                  {"workers", workers_of(snapshot)},
                  {"no_gpus", no_gpus},
                  {"series", series}});
}

std::string series_json(const std::string& name, const std::vector<Point>& points) {
  Json json = {{"name", name},
               {"step", Json::array()},
               {"time", Json::array()},
               {"mean", Json::array()},
               {"min", Json::array()},
               {"max", Json::array()}};
  for (const Point& point : points) {
    json["step"].push_back(point.step);
    json["time"].push_back(point.time);
    json["mean"].push_back(point.mean);
    json["min"].push_back(point.low);
    json["max"].push_back(point.high);
  }
  return text_of(json);
}

std::string marks_json(const std::vector<Mark>& marks) {
  Json list = Json::array();
  for (const Mark& mark : marks) {
    list.push_back({{"kind", name_of(mark.kind)},
                    {"time", mark.time},
                    {"step", from<int64_t>(mark.step, 0)},
                    {"text", mark.text}});
  }
  return text_of({{"marks", list}});
}

std::string heat_json(const Heat& heat) {
  Json slowest = Json::array();
  for (const Heat::Slow& slow : heat.slowest) {
    slowest.push_back({{"rank", slow.rank}, {"percent", slow.percent}});
  }
  Json rows = Json::array();
  for (const auto& row : heat.percents) {
    Json cells = Json::array();
    for (const auto& cell : row) {
      cells.push_back(maybe(cell));
    }
    rows.push_back(std::move(cells));
  }
  return text_of({{"what", "own_seconds"},
                  {"ranks", heat.ranks},
                  {"time", heat.times},
                  {"percent", rows},
                  {"slowest", slowest}});
}

}  // namespace lockstep::monitor
