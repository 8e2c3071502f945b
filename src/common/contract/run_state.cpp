// SPDX-License-Identifier: Apache-2.0
//
// One writer, the leader, replaces state.json atomically; any number of readers on any node read it
// without locks. Life of a run:
//
//   starting -> running -> stopping -> done | failed | cancelled | requeued
//                  ^          |
//                  |          v
//                  +---- restarting        another attempt
//
// The last four are final and can follow any other state. A killed leader leaves a state behind
// that is not final; sign_of() recognizes that.
#include "common/contract/run_state.h"

#include <array>
#include <filesystem>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/os/files.h"
#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
// In the order of RunPhase.
constexpr std::array<std::string_view, 8> kPhases = {
    "starting", "running", "stopping", "restarting", "done", "failed", "cancelled", "requeued"};

RunPhase phase_of(std::string_view name) {
  for (size_t i = 0; i < kPhases.size(); ++i) {
    if (kPhases.at(i) == name) {
      return static_cast<RunPhase>(i);
    }
  }
  throw Error(ExitCode::Io, fmt::format("cannot read the state '{}' of a run", name));
}

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <typename Value>
std::optional<Value> find_value(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? std::nullopt
                                                 : std::optional(found->template get<Value>());
}

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string_view name_of(RunPhase phase) {
  return kPhases.at(static_cast<size_t>(phase));
}

bool is_end(RunPhase phase) {
  return phase == RunPhase::Done || phase == RunPhase::Failed || phase == RunPhase::Cancelled ||
         phase == RunPhase::Requeued;
}

std::string to_json(const RunState& state) {
  Json nodes = Json::array();
  for (const RunNode& node : state.nodes) {
    nodes.push_back({{"name", node.name},
                     {"workers", node.workers},
                     {"interface", node.interface},
                     {"address", node.address}});
  }
  return dump({{"format", kFormat},
               {"run_id", state.run_id},
               {"state", name_of(state.phase)},
               {"host", state.host},
               {"machine", state.launcher.machine},
               {"pid", state.launcher.pid},
               {"pid_start_time", state.launcher.start_time},
               {"attempt", state.attempt},
               {"nodes", nodes},
               {"world_size", state.world_size},
               {"grace_seconds", state.grace_seconds},
               {"started", state.started},
               {"updated", state.updated},
               {"ended", or_null(state.ended)},
               {"exit_code", or_null(state.exit_code)},
               {"slurm_job", state.slurm_job}});
}

RunState parse_run_state(std::string_view json) {
  try {
    const Json value = Json::parse(json);
    RunState state;
    state.run_id = value.at("run_id").get<std::string>();
    state.phase = phase_of(value.at("state").get<std::string>());
    state.host = value.at("host").get<std::string>();
    state.launcher = {.machine = value.at("machine").get<std::string>(),
                      .pid = value.at("pid").get<int>(),
                      .start_time = value.at("pid_start_time").get<int64_t>()};
    state.attempt = value.at("attempt").get<int>();
    for (const Json& node : value.at("nodes")) {
      state.nodes.push_back({.name = node.at("name").get<std::string>(),
                             .workers = node.at("workers").get<int>(),
                             .interface = node.at("interface").get<std::string>(),
                             .address = node.at("address").get<std::string>()});
    }
    state.world_size = value.at("world_size").get<int>();
    state.grace_seconds = value.at("grace_seconds").get<double>();
    state.started = value.at("started").get<double>();
    state.updated = value.at("updated").get<double>();
    state.ended = find_value<double>(value, "ended");
    state.exit_code = find_value<int>(value, "exit_code");
    state.slurm_job = value.at("slurm_job").get<std::string>();
    return state;
  } catch (const nlohmann::json::exception& fault) {
    throw Error(ExitCode::Io, "cannot read the state of a run").fact("reason", fault.what());
  }
}

void write_state(const RunDirectory& run, const RunState& state) {
  os::replace_file(run.state(), to_json(state));
}

std::optional<RunState> find_state(const RunDirectory& run) {
  std::error_code ignored;
  if (!std::filesystem::exists(run.state(), ignored)) {
    return std::nullopt;
  }
  const std::string text = os::read_file(run.state());
  try {
    return parse_run_state(text);
  } catch (Error& error) {
    error.fact("file", run.state().string());
    throw;
  }
}

// On the machine of the leader, the process table decides at once. On other machines only the age
// of the state is known; it compares the clocks of two machines, so that kSilenceSeconds must
// exceed their difference.
Sign sign_of(const RunState& state, double now) {
  if (is_end(state.phase)) {
    return Sign::Ended;
  }
  if (os::is_of_this_machine(state.launcher)) {
    return os::is_alive(state.launcher) ? Sign::Alive : Sign::Gone;
  }
  return now - state.updated > kSilenceSeconds ? Sign::Silent : Sign::Alive;
}

std::string to_json(const CancelRequest& request) {
  return dump({{"format", kFormat},
               {"who", request.who},
               {"time", request.time},
               {"signal", request.is_now ? "SIGKILL" : "SIGTERM"},
               {"grace_seconds", or_null(request.grace_seconds)}});
}

CancelRequest parse_cancel_request(std::string_view json) {
  try {
    const Json value = Json::parse(json);
    return {.who = value.at("who").get<std::string>(),
            .time = value.at("time").get<double>(),
            .is_now = value.at("signal").get<std::string>() == "SIGKILL",
            .grace_seconds = find_value<double>(value, "grace_seconds")};
  } catch (const nlohmann::json::exception& fault) {
    throw Error(ExitCode::Io, "cannot read the request to cancel a run")
        .fact("reason", fault.what());
  }
}

void write_cancel(const RunDirectory& run, const CancelRequest& request) {
  os::replace_file(run.cancel(), to_json(request));
}

// A user may also create the file with touch(1).
std::optional<CancelRequest> find_cancel(const RunDirectory& run) {
  std::error_code ignored;
  if (!std::filesystem::exists(run.cancel(), ignored)) {
    return std::nullopt;
  }
  try {
    return parse_cancel_request(os::read_file(run.cancel()));
  } catch (const Error& error) {
    return CancelRequest{
        .who = "an unknown user", .time = 0, .is_now = false, .grace_seconds = std::nullopt};
  }
}

}  // namespace lockstep::contract
