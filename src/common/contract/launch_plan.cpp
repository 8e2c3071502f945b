// SPDX-License-Identifier: Apache-2.0
//
// plan.json is written and read by one description of its fields. visit_plan() and the other visit
// functions call visitor.field(NAME, VALUE) for each field; the Writer turns a call into a JSON
// value, the Reader assigns from one. A new field is one line in a visit function and cannot be
// written without being read.
//
//   to_json(plan):   visit_plan(Writer, plan)    plan  -> JSON
//   parse_plan():    visit_plan(Reader, plan)    JSON  -> plan, throws if a field is missing
//
// Names of JSON fields are part of the file format. Some keep older words ("way", "meeting") than
// the members of the plan.
#include "common/contract/launch_plan.h"

#include <array>
#include <fmt/format.h>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/contract/enum_names.h"
#include "common/contract/secret.h"
#include "common/os/files.h"
#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

using Json = nlohmann::ordered_json;

// The Reader requires every field, so that a plan of another format cannot be read at all.
constexpr int kFormat = 2;

template <typename T>
concept Named = requires(T value) {
  enum_names(value);
};

template <Named T>
T from_name(const Json& json) {
  const auto text = json.get<std::string>();
  for (const auto& [known, word] : enum_names(T{})) {
    if (word == text) {
      return known;
    }
  }
  throw Error(ExitCode::Io, fmt::format("cannot read the plan: unknown value '{}'", text))
      .fact("found", fmt::format("'{}'", text), "plan.json")
      .hint("use the version of lockstep that wrote it");
}

template <typename T>
Json write_value(const T& value) {
  if constexpr (Named<T>) {
    return to_string(value);
  } else {
    return value;
  }
}

template <typename T>
T read_value(const Json& json) {
  if constexpr (Named<T>) {
    return from_name<T>(json);
  } else {
    return json.get<T>();
  }
}

// Visit the fields of a plan in both directions, so that the list of fields exists once.
class Writer {
 public:
  template <typename T>
  void field(const char* name, const T& value) {
    json_[name] = write(value);
  }
  template <typename T>
  void new_field(const char* name, const T& value) {
    field(name, value);
  }

  const Json& json() const { return json_; }

 private:
  template <typename T>
  static Json write(const T& value) {
    return write_value(value);
  }
  template <typename T>
  static Json write(const Sourced<T>& sourced) {
    Json json = {{"value", write_value(sourced.value)}, {"source", to_string(sourced.source.kind)}};
    if (!sourced.source.detail.empty()) {
      json["detail"] = sourced.source.detail;
    }
    return json;
  }
  static Json write(const Variables& variables) {
    Json json = Json::object();
    for (const auto& [name, value] : variables) {
      json[name] = write(value);
    }
    return json;
  }
  static Json write(const std::optional<int>& number) { return number ? Json(*number) : Json(); }
  static Json write(const std::optional<int64_t>& number) {
    return number ? Json(*number) : Json();
  }
  static Json write(const std::optional<RequeueRules>& rules);
  static Json write(const StreamRule& rule);
  static Json write(const OutputRules& rules);
  static Json write(const Rendezvous& rendezvous);
  static Json write(const std::vector<PlannedNode>& nodes);
  static Json write(const std::vector<Metric>& metrics);

  Json json_ = Json::object();
};

// Overloads of read() select the conversion by the type of the member. Json::at() throws for a
// missing field, which parse_plan() turns into an Error that names it.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  template <typename T>
  void field(const char* name, T& value) {
    read(json_.at(name), value);
  }
  // Absent in files of older versions: `value` is then unchanged.
  template <typename T>
  void new_field(const char* name, T& value) {
    if (json_.contains(name)) {
      field(name, value);
    }
  }

 private:
  template <typename T>
  static void read(const Json& json, T& value) {
    value = read_value<T>(json);
  }
  template <typename T>
  static void read(const Json& json, Sourced<T>& sourced) {
    sourced = {read_value<T>(json.at("value")),
               {from_name<ValueSource>(json.at("source")), json.value("detail", "")}};
  }
  static void read(const Json& json, Variables& variables) {
    for (const auto& [name, value] : json.items()) {
      read(value, variables[name]);
    }
  }
  static void read(const Json& json, std::optional<int>& number) {
    number = json.is_null() ? std::nullopt : std::optional(json.get<int>());
  }
  static void read(const Json& json, std::optional<int64_t>& number) {
    number = json.is_null() ? std::nullopt : std::optional(json.get<int64_t>());
  }
  static void read(const Json& json, std::optional<RequeueRules>& rules);
  static void read(const Json& json, StreamRule& rule);
  static void read(const Json& json, OutputRules& rules);
  static void read(const Json& json, Rendezvous& rendezvous);
  static void read(const Json& json, std::vector<PlannedNode>& nodes);
  static void read(const Json& json, std::vector<Metric>& metrics);

  const Json& json_;
};

template <typename Visitor, typename T>
void visit_output(Visitor& visitor, T& rules) {
  visitor.field("log_dir", rules.log_dir);
  visitor.field("redirects", rules.redirects);
  visitor.field("tee", rules.tee);
  visitor.field("local_ranks_filter", rules.local_ranks_filter);
  visitor.field("output_filename", rules.output_filename);
}

template <typename Visitor, typename T>
void visit_rendezvous(Visitor& visitor, T& rendezvous) {
  visitor.field("name", rendezvous.name);
  visitor.field("host", rendezvous.host);
  visitor.field("port", rendezvous.port);
  visitor.field("node", rendezvous.node);
  visitor.field("rank", rendezvous.rank);
  visitor.field("world_size", rendezvous.world_size);
  visitor.field("local_rank", rendezvous.local_rank);
  visitor.field("local_world_size", rendezvous.local_world_size);
}

template <typename Visitor, typename T>
void visit_node(Visitor& visitor, T& node) {
  visitor.field("name", node.name);
  visitor.field("workers", node.workers);
  visitor.field("gpus", node.gpus);
  visitor.field("variables", node.variables);
}

template <typename Visitor, typename T>
void visit_requeue(Visitor& visitor, T& rules) {
  visitor.field("job", rules.job);
  visitor.field("signal", rules.signal);
  visitor.field("most", rules.maximum);
  visitor.field("progress_file", rules.progress_file);
  visitor.field("end_time", rules.end_time);
}

template <typename Visitor, typename T>
void visit_plan(Visitor& visitor, T& plan) {
  visitor.field("run_id", plan.run_id);
  visitor.field("run_directory", plan.run_directory);
  visitor.field("command", plan.command);
  visitor.field("program_word", plan.program_word);
  visitor.field("passes_local_rank", plan.passes_local_rank);
  visitor.field("local_rank_option", plan.local_rank_option);
  visitor.field("way", plan.mode);
  visitor.field("nodes", plan.nodes);
  visitor.field("min_nodes", plan.min_nodes);
  visitor.field("worker_rule", plan.worker_rule);
  visitor.field("meeting", plan.rendezvous);
  visitor.field("master_addr", plan.master_addr);
  visitor.field("master_port", plan.master_port);
  visitor.field("interfaces", plan.interfaces);
  visitor.field("local_addr", plan.local_addr);
  visitor.field("ssh_port", plan.ssh_port);
  visitor.field("ssh_identity", plan.ssh_identity);
  visitor.field("grace_seconds", plan.grace_seconds);
  visitor.field("timeout_seconds", plan.timeout_seconds);
  visitor.field("start_timeout_seconds", plan.start_timeout_seconds);
  visitor.field("last_call_seconds", plan.last_call_seconds);
  visitor.field("max_restarts", plan.max_restarts);
  visitor.field("requeue", plan.requeue);
  visitor.field("slurm_restarts", plan.slurm_restarts);
  visitor.field("bind", plan.bind);
  visitor.field("role", plan.role);
  visitor.field("may_share_gpus", plan.may_share_gpus);
  visitor.new_field("starts_mps", plan.starts_mps);
  visitor.field("output", plan.output);
  visitor.field("metrics", plan.metrics);
  visitor.field("sample_every_seconds", plan.sample_every_seconds);
  visitor.field("variables", plan.variables);
  visitor.field("remarks", plan.remarks);
}

// JSON keys are strings. "otherwise" is the rule for local ranks without an entry.
Json Writer::write(const StreamRule& rule) {
  Json json = {{"otherwise", rule.fallback}};
  for (const auto& [local, bits] : rule.by_local) {
    json[std::to_string(local)] = bits;
  }
  return json;
}

Json Writer::write(const OutputRules& rules) {
  Writer writer;
  visit_output(writer, rules);
  return writer.json();
}

Json Writer::write(const Rendezvous& rendezvous) {
  Writer writer;
  visit_rendezvous(writer, rendezvous);
  return writer.json();
}

Json Writer::write(const std::optional<RequeueRules>& rules) {
  if (!rules) {
    return {};
  }
  Writer writer;
  visit_requeue(writer, *rules);
  return writer.json();
}

Json Writer::write(const std::vector<PlannedNode>& nodes) {
  Json json = Json::array();
  for (const PlannedNode& node : nodes) {
    Writer writer;
    visit_node(writer, node);
    json.push_back(writer.json());
  }
  return json;
}

Json Writer::write(const std::vector<Metric>& metrics) {
  Json json = Json::array();
  for (const Metric& metric : metrics) {
    json.push_back({{"name", metric.name}, {"pattern", metric.pattern}});
  }
  return json;
}

void Reader::read(const Json& json, std::vector<Metric>& metrics) {
  for (const Json& one : json) {
    metrics.push_back({.name = one.at("name").get<std::string>(),
                       .pattern = one.at("pattern").get<std::string>()});
  }
}

void Reader::read(const Json& json, StreamRule& rule) {
  for (const auto& [name, bits] : json.items()) {
    (name == "otherwise" ? rule.fallback : rule.by_local[std::stoi(name)]) = bits.get<int>();
  }
}

void Reader::read(const Json& json, OutputRules& rules) {
  Reader reader(json);
  visit_output(reader, rules);
}

void Reader::read(const Json& json, Rendezvous& rendezvous) {
  Reader reader(json);
  visit_rendezvous(reader, rendezvous);
}

void Reader::read(const Json& json, std::optional<RequeueRules>& rules) {
  rules.reset();
  if (!json.is_null()) {
    Reader reader(json);
    visit_requeue(reader, rules.emplace());
  }
}

void Reader::read(const Json& json, std::vector<PlannedNode>& nodes) {
  for (const Json& one : json) {
    Reader reader(one);
    visit_node(reader, nodes.emplace_back());
  }
}

}  // namespace

std::string to_json(const LaunchPlan& plan) {
  Writer writer;
  writer.field("format", kFormat);
  visit_plan(writer, plan);
  // File names may contain invalid UTF-8: replace it instead of throwing an exception.
  return writer.json().dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

LaunchPlan without_secrets(LaunchPlan plan) {
  const auto hide = [](Variables& variables) {
    for (auto& [name, value] : variables) {
      if (is_secret(name, value.value)) {
        value.value = "(hidden)";
      }
    }
  };
  hide(plan.variables);
  for (PlannedNode& node : plan.nodes) {
    hide(node.variables);
  }
  return plan;
}

LaunchPlan parse_plan(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    const int format = json.at("format").get<int>();
    if (format != kFormat) {
      throw Error(ExitCode::Io, fmt::format("cannot read the plan: unknown format {}", format))
          .fact("expected", fmt::format("format {}", kFormat))
          .hint("use the version of lockstep that wrote it");
    }
    LaunchPlan plan;
    Reader reader(json);
    visit_plan(reader, plan);
    return plan;
  } catch (const nlohmann::json::exception& fault) {
    throw Error(ExitCode::Io, "cannot read the plan").fact("reason", fault.what(), "plan.json");
  } catch (const std::invalid_argument& fault) {
    throw Error(ExitCode::Io, "cannot read the plan").fact("reason", fault.what(), "plan.json");
  }
}

LaunchPlan read_plan(const RunDirectory& run) {
  return parse_plan(os::read_file(run.plan()));
}

}  // namespace lockstep::contract
