// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/tf_config.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::cluster {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kVariable = "TF_CONFIG";
constexpr std::string_view kExample =
    R"(TF_CONFIG='{"cluster": {"worker": ["h0:2222", "h1:2222"]}, )"
    R"("task": {"type": "worker", "index": 0}}')";

[[noreturn]] void refuse(std::string_view why, std::string_view found) {
  throw Error(ExitCode::Usage, fmt::format("cannot read {}: {}", kVariable, why))
      .fact("found", found, "environment")
      .hint(kExample);
}

struct Address {
  std::string host;
  int port = 0;
};

// "h0:2222", "[fd00::1]:2222".
Address parse_address(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  const size_t colon = text.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : find_integer(text.substr(colon + 1));
  if (!value.is_string() || colon == 0 || !port || *port < 1 || *port > 65535) {
    refuse("an address is not HOST:PORT", text);
  }
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  return {host, static_cast<int>(*port)};
}

bool is_chief(std::string_view type) {
  return type == "chief" || type == "master";  // "master" is the old name
}

// The addresses of all tasks in rank order: the chief, if there is one, then the workers.
struct Cluster {
  std::vector<Address> tasks;
  size_t chiefs = 0;
};

// The items of a JSON object have no order, so the chief is put in front afterwards. "ps" and
// "evaluator" tasks have no counterpart: all workers here are equal.
Cluster read_cluster(const Json& cluster) {
  Cluster all;
  std::vector<Address> workers;
  for (const auto& [type, addresses] : cluster.items()) {
    if (!is_chief(type) && type != "worker") {
      refuse("lockstep supports the task types chief and worker only",
             fmt::format("tasks of type '{}'", type));
    }
    if (!addresses.is_array()) {
      refuse(fmt::format("the tasks of type '{}' are not a list", type), addresses.dump());
    }
    for (const Json& address : addresses) {
      (is_chief(type) ? all.tasks : workers).push_back(parse_address(address));
    }
  }
  all.chiefs = all.tasks.size();
  if (all.chiefs > 1) {
    refuse("it has more than one chief", fmt::format("{} chiefs", all.chiefs));
  }
  all.tasks.insert(all.tasks.end(), workers.begin(), workers.end());
  return all;
}

// TensorFlow also accepts "index": "0".
std::optional<int64_t> find_index(const Json& task) {
  const auto index = task.find("index");
  if (index == task.end()) {
    return std::nullopt;
  }
  if (index->is_string()) {
    return find_integer(index->get<std::string>());
  }
  return index->is_number_integer() ? std::optional(index->get<int64_t>()) : std::nullopt;
}

int read_rank(const Json& config, const Cluster& cluster) {
  const auto task = config.find("task");
  if (task == config.end() || !task->is_object()) {
    refuse("it has a cluster, but no task", config.dump());
  }
  const std::string type = task->value("type", Json("")).is_string()
                               ? task->value("type", std::string())
                               : task->at("type").dump();
  if (!is_chief(type) && type != "worker") {
    refuse("the task type must be chief or worker",
           type.empty() ? "no task type" : fmt::format("task type '{}'", type));
  }
  const auto index = find_index(*task);
  const size_t count = is_chief(type) ? cluster.chiefs : cluster.tasks.size() - cluster.chiefs;
  if (!index || *index < 0 || static_cast<size_t>(*index) >= count) {
    refuse("the cluster has no task with this index",
           fmt::format("task {} of type '{}'; the cluster has {}",
                       index ? std::to_string(*index) : "without an index",
                       type,
                       count));
  }
  return static_cast<int>(*index) + (is_chief(type) ? 0 : static_cast<int>(cluster.chiefs));
}

}  // namespace

std::optional<contract::WorkerSpec> find_tf_config_worker(const os::Environment& environment) {
  const auto text = os::find_variable(environment, kVariable);
  if (!text || trim(*text).empty()) {
    return std::nullopt;
  }
  const Json config = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (config.is_discarded() || !config.is_object()) {
    refuse("it is not a JSON object", *text);
  }
  const auto named = config.find("cluster");
  if (named == config.end() || (named->is_object() && named->empty())) {
    return std::nullopt;
  }
  if (!named->is_object()) {
    refuse("its cluster is not a JSON object", named->dump());
  }
  const Cluster cluster = read_cluster(*named);
  contract::WorkerSpec spec = contract::single_worker(environment);
  spec.rank = read_rank(config, cluster);
  spec.world_size = static_cast<int>(cluster.tasks.size());
  spec.master_addr = cluster.tasks.front().host;
  spec.master_port = cluster.tasks.front().port;
  spec.node = cluster.tasks[static_cast<size_t>(spec.rank)].host;
  spec.local_world_size = 0;
  // One pass in rank order: hosts are numbered by their first appearance, and local_world_size
  // counts the tasks of the own host, so that at the own rank it is the local rank.
  std::vector<std::string> hosts;
  for (int rank = 0; rank < spec.world_size; ++rank) {
    const std::string& host = cluster.tasks[static_cast<size_t>(rank)].host;
    auto node = std::find(hosts.begin(), hosts.end(), host);
    if (node == hosts.end()) {
      node = hosts.insert(hosts.end(), host);
    }
    if (rank == spec.rank) {
      spec.local_rank = spec.local_world_size;
      spec.node_rank = static_cast<int>(node - hosts.begin());
    }
    spec.local_world_size += host == spec.node ? 1 : 0;
  }
  spec.nodes = static_cast<int>(hosts.size());
  return spec;
}

}  // namespace lockstep::cluster
