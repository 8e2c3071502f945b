// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_json.h"

#include <array>
#include <fmt/format.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

constexpr std::array<std::pair<Origin, std::string_view>, 4> kOrigins = {
    std::pair(Origin::Flag, "flag"),
    std::pair(Origin::Variable, "variable"),
    std::pair(Origin::Probe, "probe"),
    std::pair(Origin::Default, "default"),
};

std::string_view name_of(Origin origin) {
  for (const auto& [value, name] : kOrigins) {
    if (value == origin) {
      return name;
    }
  }
  return "default";
}

Origin parse_origin(const std::string& text) {
  for (const auto& [value, name] : kOrigins) {
    if (name == text) {
      return value;
    }
  }
  throw Error(ExitCode::Io, fmt::format("cannot read the plan: '{}' is no source", text));
}

template <typename T>
Json write(const Sourced<T>& sourced) {
  Json json = {{"value", sourced.value}, {"source", name_of(sourced.source.origin)}};
  if (!sourced.source.detail.empty()) {
    json["detail"] = sourced.source.detail;
  }
  return json;
}

Json write(const Variables& variables) {
  Json json = Json::object();
  for (const auto& [name, value] : variables) {
    json[name] = write(value);
  }
  return json;
}

template <typename T>
Sourced<T> read(const Json& json) {
  return {json.at("value").get<T>(),
          {parse_origin(json.at("source").get<std::string>()), json.value("detail", "")}};
}

Variables read_variables(const Json& json) {
  Variables variables;
  for (const auto& [name, value] : json.items()) {
    variables.emplace(name, read<std::string>(value));
  }
  return variables;
}

LaunchPlan read_plan(const Json& json) {
  LaunchPlan plan;
  plan.run_id = json.at("run_id").get<std::string>();
  plan.run_directory = read<std::string>(json.at("run_directory"));
  plan.command = json.at("command").get<std::vector<std::string>>();
  for (const Json& node : json.at("nodes")) {
    plan.nodes.push_back({.name = node.at("name").get<std::string>(),
                          .workers = read<int>(node.at("workers")),
                          .variables = read_variables(node.at("variables"))});
  }
  plan.master_addr = read<std::string>(json.at("master_addr"));
  plan.master_port = read<int>(json.at("master_port"));
  plan.grace_seconds = read<double>(json.at("grace_seconds"));
  plan.max_restarts = read<int>(json.at("max_restarts"));
  plan.variables = read_variables(json.at("variables"));
  return plan;
}

}  // namespace

std::string to_json(const LaunchPlan& plan) {
  Json nodes = Json::array();
  for (const Node& node : plan.nodes) {
    nodes.push_back({{"name", node.name},
                     {"workers", write(node.workers)},
                     {"variables", write(node.variables)}});
  }
  const Json json = {{"format", kFormat},
                     {"run_id", plan.run_id},
                     {"run_directory", write(plan.run_directory)},
                     {"command", plan.command},
                     {"nodes", nodes},
                     {"master_addr", write(plan.master_addr)},
                     {"master_port", write(plan.master_port)},
                     {"grace_seconds", write(plan.grace_seconds)},
                     {"max_restarts", write(plan.max_restarts)},
                     {"variables", write(plan.variables)}};
  // A file name need not be UTF-8; what is not becomes a replacement character, never an exception.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

LaunchPlan parse_plan(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    const int format = json.at("format").get<int>();
    if (format != kFormat) {
      throw Error(ExitCode::Io, fmt::format("cannot read the plan: format {} is not ours", format))
          .fact("expected", fmt::format("format {}", kFormat))
          .hint("the lockstep that wrote it");
    }
    return read_plan(json);
  } catch (const nlohmann::json::exception& fault) {
    throw Error(ExitCode::Io, "cannot read the plan").fact("reason", fault.what(), "plan.json");
  }
}

}  // namespace lockstep::plan
