// SPDX-License-Identifier: Apache-2.0
#include "common/contract/node_sample.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKind = "node";

// Calls visit(name, field) for every optional field of a GPU: one list for reading and writing.
template <typename Gpu, typename Visit>
void visit_optional(Gpu& gpu, Visit visit) {
  visit("utilisation", gpu.utilisation);
  visit("memory_utilisation", gpu.memory_utilisation);
  visit("memory_bytes", gpu.memory_bytes);
  visit("memory_total_bytes", gpu.memory_total_bytes);
  visit("power_watts", gpu.power_watts);
  visit("energy_joules", gpu.energy_joules);
  visit("slice_of", gpu.slice_of);
  visit("slice_share", gpu.slice_share);
  visit("temperature", gpu.temperature);
  visit("sm_clock_mhz", gpu.sm_clock_mhz);
  visit("memory_clock_mhz", gpu.memory_clock_mhz);
  visit("pcie_received_bytes_per_second", gpu.pcie_received_bytes_per_second);
  visit("pcie_sent_bytes_per_second", gpu.pcie_sent_bytes_per_second);
  visit("nvlink_received_bytes_per_second", gpu.nvlink_received_bytes_per_second);
  visit("nvlink_sent_bytes_per_second", gpu.nvlink_sent_bytes_per_second);
  visit("ecc_errors", gpu.ecc_errors);
  visit("xid", gpu.xid);
}

Json json_of(const GpuSample& gpu) {
  Json json = {
      {"index", gpu.index}, {"uuid", gpu.uuid}, {"name", gpu.name}, {"bus_id", gpu.bus_id}};
  visit_optional(gpu, [&json](const char* name, const auto& field) {
    if (field) {
      json[name] = *field;
    }
  });
  return json;
}

// Absent stays absent: 0 would be a measured value.
GpuSample gpu_of(const Json& json) {
  GpuSample gpu;
  gpu.index = json.at("index");
  gpu.uuid = json.value("uuid", "");
  gpu.name = json.value("name", "");
  gpu.bus_id = json.value("bus_id", "");
  visit_optional(gpu, [&json](const char* name, auto& field) {
    if (const auto found = json.find(name); found != json.end()) {
      field = found->get<typename std::remove_reference_t<decltype(field)>::value_type>();
    }
  });
  return gpu;
}

Json json_of(const InterfaceSample& interface) {
  return {{"name", interface.name},
          {"received_bytes", interface.received_bytes},
          {"sent_bytes", interface.sent_bytes}};
}

InterfaceSample interface_of(const Json& json) {
  return {.name = json.at("name"),
          .received_bytes = json.at("received_bytes"),
          .sent_bytes = json.at("sent_bytes")};
}

Json json_of(const WorkerSample& worker) {
  return {{"rank", worker.rank},
          {"pid", worker.pid},
          {"cores", worker.cores},
          {"memory_bytes", worker.memory_bytes},
          {"read_bytes", worker.read_bytes},
          {"written_bytes", worker.written_bytes},
          {"gpus", worker.gpus}};
}

WorkerSample worker_of(const Json& json) {
  return {.rank = json.at("rank"),
          .pid = json.at("pid"),
          .cores = json.at("cores"),
          .memory_bytes = json.at("memory_bytes"),
          .read_bytes = json.at("read_bytes"),
          .written_bytes = json.at("written_bytes"),
          .gpus = json.value("gpus", std::vector<int>())};
}

template <typename Sample>
Json list_of(const std::vector<Sample>& samples) {
  Json list = Json::array();
  for (const Sample& sample : samples) {
    list.push_back(json_of(sample));
  }
  return list;
}

// Samples of older versions lack some lists; they count as empty.
template <typename Read>
auto read_list(const Json& json, const char* name, Read read) {
  std::vector<decltype(read(json))> samples;
  for (const Json& each : json.value(name, Json::array())) {
    samples.push_back(read(each));
  }
  return samples;
}

}  // namespace

// One line without line breaks: RotatingFile and the readers depend on it. "no_gpus" explains an
// empty list of GPUs and is absent otherwise.
std::string to_json(const NodeSample& sample) {
  Json json = {{"event", kKind},
               {"time", sample.time},
               {"node", sample.node},
               {"host", sample.host},
               {"cores", sample.cores},
               {"granted", sample.granted},
               {"memory_bytes", sample.memory_bytes},
               {"memory_limit_bytes", sample.memory_limit_bytes},
               {"interfaces", list_of(sample.interfaces)},
               {"gpus", list_of(sample.gpus)},
               {"workers", list_of(sample.workers)}};
  if (!sample.no_gpus.empty()) {
    json["no_gpus"] = sample.no_gpus;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Only event, time and node are required. The last line of a killed agent can be cut, which is an
// Error here.
NodeSample parse_node_sample(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    if (json.at("event") != kKind) {
      throw Error(ExitCode::Io, "cannot read a node sample: the line is not a node event")
          .fact("line", line);
    }
    return {.time = json.at("time"),
            .node = json.at("node"),
            .host = json.value("host", ""),
            .cores = json.value("cores", 0.0),
            .granted = json.value("granted", 0),
            .memory_bytes = json.value("memory_bytes", int64_t{0}),
            .memory_limit_bytes = json.value("memory_limit_bytes", int64_t{0}),
            .interfaces = read_list(json, "interfaces", interface_of),
            .gpus = read_list(json, "gpus", gpu_of),
            .no_gpus = json.value("no_gpus", ""),
            .workers = read_list(json, "workers", worker_of)};
  } catch (const nlohmann::json::exception& reason) {
    throw Error(ExitCode::Io, "cannot read a node sample: the line is invalid")
        .fact("line", line)
        .fact("reason", reason.what());
  }
}

}  // namespace lockstep::contract
