// SPDX-License-Identifier: Apache-2.0
#include "contract/worker_env.h"

#include <fmt/format.h>
#include <limits>

#include "base/text.h"
#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

constexpr std::string_view kRank = "RANK";
constexpr std::string_view kWorldSize = "WORLD_SIZE";
constexpr std::string_view kLocalRank = "LOCAL_RANK";
constexpr std::string_view kLocalWorldSize = "LOCAL_WORLD_SIZE";
constexpr std::string_view kNodeRank = "GROUP_RANK";
constexpr std::string_view kNodes = "GROUP_WORLD_SIZE";
constexpr std::string_view kMasterAddr = "MASTER_ADDR";
constexpr std::string_view kMasterPort = "MASTER_PORT";
constexpr std::string_view kInterface = "LOCKSTEP_INTERFACE";
constexpr std::string_view kGlooInterface = "GLOO_SOCKET_IFNAME";
constexpr std::string_view kRunId = "LOCKSTEP_RUN_ID";
constexpr std::string_view kTorchRunId = "TORCHELASTIC_RUN_ID";
constexpr std::string_view kRunDirectory = "LOCKSTEP_RUN_DIR";
constexpr std::string_view kAttempt = "TORCHELASTIC_RESTART_COUNT";
constexpr std::string_view kMaxRestarts = "TORCHELASTIC_MAX_RESTARTS";
constexpr int kMostWorkers = 1 << 20;

std::string text_or(const os::Environment& environment,
                    std::string_view name,
                    std::string_view otherwise) {
  return os::find_variable(environment, name).value_or(std::string(otherwise));
}

void require_below(std::string_view name, int value, std::string_view bound_name, int bound) {
  if (value >= bound) {
    throw Error(ExitCode::Usage, "cannot find my place in the gang: variables contradict")
        .fact(name, std::to_string(value), "environment")
        .fact(bound_name, std::to_string(bound), "environment")
        .hint("lockstep run sets both; unset the one that is left over from another launcher");
  }
}

}  // namespace

std::optional<int> find_number(const os::Environment& environment,
                               std::string_view name,
                               int least,
                               int most) {
  const auto text = os::find_variable(environment, name);
  if (!text) {
    return std::nullopt;
  }
  const auto value = lockstep::find_integer(*text);
  if (!value || *value < least || *value > most) {
    throw Error(ExitCode::Usage, fmt::format("cannot read {}='{}'", name, *text))
        .fact("expected", fmt::format("a whole number from {} to {}", least, most))
        .fact("found", fmt::format("'{}'", *text), "environment")
        .hint(fmt::format("unset {}, or start the program with lockstep run", name));
  }
  return static_cast<int>(*value);
}

os::Environment to_environment(const WorkerPlace& place) {
  os::Environment variables;
  const auto set = [&variables](std::string_view name, std::string value) {
    variables.insert_or_assign(std::string(name), std::move(value));
  };
  set(kRank, std::to_string(place.rank));
  set(kWorldSize, std::to_string(place.world_size));
  set(kLocalRank, std::to_string(place.local_rank));
  set(kLocalWorldSize, std::to_string(place.local_world_size));
  set(kNodeRank, std::to_string(place.node_rank));
  set(kNodes, std::to_string(place.nodes));
  set(kMasterAddr, place.master_addr);
  set(kMasterPort, std::to_string(place.master_port));
  set("ROLE_NAME", "default");
  set("ROLE_RANK", std::to_string(place.rank));
  set("ROLE_WORLD_SIZE", std::to_string(place.world_size));
  set(kTorchRunId, place.run_id.empty() ? "none" : place.run_id);
  set(kAttempt, std::to_string(place.attempt));
  set(kMaxRestarts, std::to_string(place.max_restarts));
  // Workers make their own store on MASTER_ADDR:MASTER_PORT; there is no agent's store to join.
  set("TORCHELASTIC_USE_AGENT_STORE", "False");
  set(kRunId, place.run_id);
  if (!place.run_directory.empty()) {
    set(kRunDirectory, place.run_directory);
  }
  if (!place.interface.empty()) {
    set(kInterface, place.interface);
    set(kGlooInterface, place.interface);
  }
  return variables;
}

WorkerPlace place_alone(const os::Environment& environment) {
  WorkerPlace place;
  place.master_addr = text_or(environment, kMasterAddr, "127.0.0.1");
  place.interface = text_or(environment, kInterface, text_or(environment, kGlooInterface, ""));
  place.run_id = text_or(environment, kRunId, text_or(environment, kTorchRunId, ""));
  place.run_directory = text_or(environment, kRunDirectory, "");
  return place;
}

std::optional<WorkerPlace> find_place(const os::Environment& environment) {
  const auto rank = find_number(environment, kRank, 0, kMostWorkers - 1);
  const auto world_size = find_number(environment, kWorldSize, 1, kMostWorkers);
  if (!rank && !world_size) {
    return std::nullopt;
  }
  if (!rank || !world_size) {
    throw Error(ExitCode::Usage, "cannot find my place in the gang")
        .fact("found", rank ? kRank : kWorldSize, "environment")
        .fact("missing", rank ? kWorldSize : kRank, "environment")
        .hint("start the program with lockstep run, or unset both for one process");
  }
  WorkerPlace place = place_alone(environment);
  place.rank = *rank;
  place.world_size = *world_size;
  place.local_rank = find_number(environment, kLocalRank, 0, kMostWorkers - 1).value_or(*rank);
  place.local_world_size =
      find_number(environment, kLocalWorldSize, 1, kMostWorkers).value_or(*world_size);
  place.node_rank = find_number(environment, kNodeRank, 0, kMostWorkers - 1).value_or(0);
  place.nodes = find_number(environment, kNodes, 1, kMostWorkers)
                    .value_or((*world_size + place.local_world_size - 1) / place.local_world_size);
  place.master_port = find_number(environment, kMasterPort, 0, 65535).value_or(29500);
  place.attempt =
      find_number(environment, kAttempt, 0, std::numeric_limits<int>::max()).value_or(0);
  place.max_restarts =
      find_number(environment, kMaxRestarts, 0, std::numeric_limits<int>::max()).value_or(0);
  require_below(kRank, place.rank, kWorldSize, place.world_size);
  require_below(kLocalRank, place.local_rank, kLocalWorldSize, place.local_world_size);
  return place;
}

}  // namespace lockstep::contract
