// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "contract/fork_offer.h"
#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

constexpr int kMostWorkersPerNode = 4096;
constexpr std::string_view kThreads = "OMP_NUM_THREADS";

Error refuse(std::string_view flag, std::string_view text, std::string_view expected) {
  return Error(ExitCode::Usage, fmt::format("cannot understand {} '{}'", flag, text))
      .fact("expected", expected)
      .fact("found", fmt::format("'{}'", text), "command line");
}

Sourced<int> read_workers(const Request& request, const Surroundings& here) {
  const std::string flag = "--nproc-per-node";
  if (!request.nproc_per_node) {
    return from_default(1);
  }
  const std::string& text = *request.nproc_per_node;
  if (text == "gpu" && here.gpus == 0) {
    throw Error(ExitCode::Usage, "cannot start one worker per GPU: there is none here")
        .fact("asked", "--nproc-per-node gpu", "command line")
        .fact("found", "no GPU", "/dev and CUDA_VISIBLE_DEVICES")
        .hint("--nproc-per-node cpu");
  }
  if (text == "gpu" || (text == "auto" && here.gpus > 0)) {
    return from_flag(here.gpus, fmt::format("{} {}: one per GPU", flag, text));
  }
  if (text == "cpu" || text == "auto") {
    return from_flag(here.cores, fmt::format("{} {}: one per granted core", flag, text));
  }
  const auto count = find_integer(text);
  if (!count || *count < 1 || *count > kMostWorkersPerNode) {
    throw refuse(
        flag, text, fmt::format("a number from 1 to {}, cpu, gpu or auto", kMostWorkersPerNode))
        .hint("--nproc-per-node 2");
  }
  return from_flag(static_cast<int>(*count), flag);
}

Sourced<int> read_port(const Request& request, const Surroundings& here) {
  if (!request.master_port) {
    return from_probe(here.free_port, "free on this machine");
  }
  const auto port = find_integer(*request.master_port);
  if (!port || *port < 1 || *port > 65535) {
    throw refuse("--master-port", *request.master_port, "a number from 1 to 65535")
        .hint("drop the flag: a free port is found for you");
  }
  return from_flag(static_cast<int>(*port), "--master-port");
}

Sourced<double> read_grace(const Request& request) {
  constexpr double kDay = 86400;
  if (!request.grace) {
    return from_default(30.0);
  }
  const std::string& text = *request.grace;
  double seconds = -1;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_whole = fault == std::errc() && end == text.data() + text.size();
  if (!is_whole || !(seconds >= 0) || seconds > kDay) {
    throw refuse("--grace", text, "seconds from 0 to 86400").hint("--grace 30");
  }
  return from_flag(seconds, "--grace");
}

// The words of a run's name that are safe in a path on every file system.
std::string to_file_name(std::string_view program) {
  std::string name = std::filesystem::path(program).stem().string();
  std::replace_if(
      name.begin(),
      name.end(),
      [](char c) { return std::string_view("/ \t\n\"'\\:*?<>|&;$`").find(c) != std::string::npos; },
      '-');
  return name.empty() ? "run" : name;
}

Sourced<std::string> read_run_directory(const Request& request,
                                        const Surroundings& here,
                                        const std::string& run_id) {
  const auto whole = [&here](const std::filesystem::path& path) {
    return (here.directory / path).lexically_normal().string();
  };
  if (!request.run_dir) {
    return from_default(whole(std::filesystem::path("runs") / run_id));
  }
  if (request.run_dir->empty()) {
    throw refuse("--run-dir", "", "the name of a directory").hint("--run-dir runs/first");
  }
  return from_flag(whole(*request.run_dir), "--run-dir");
}

Variables read_variables(const Request& request) {
  const os::Environment ours = contract::to_environment({});
  Variables variables;
  for (const std::string& text : request.env) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw refuse("--env", text, "NAME=VALUE").hint("--env OMP_PROC_BIND=true");
    }
    const std::string name = text.substr(0, equals);
    if (ours.contains(name)) {
      throw Error(ExitCode::Usage, fmt::format("cannot set {}: it tells a worker its place", name))
          .fact("asked", fmt::format("--env {}", text), "command line")
          .hint("drop it: every worker gets its own value from the launcher");
    }
    variables.insert_or_assign(name, from_flag(text.substr(equals + 1), "--env"));
  }
  return variables;
}

void add_where_unset(Variables& variables,
                     const os::Environment& environment,
                     std::string_view name,
                     Sourced<std::string> value) {
  if (const auto set = os::find_variable(environment, name)) {
    value = {*set, {Origin::Variable, std::string(name)}};
  }
  variables.emplace(name, std::move(value));
}

bool is_python(std::string_view program) {
  return program.ends_with(".py");
}

std::vector<std::string> read_command(const Request& request) {
  if (request.program.empty() || request.program.front().empty()) {
    throw Error(ExitCode::Usage, "cannot run: there is no program")
        .fact("expected", "a program after the options", "command line")
        .hint("lockstep run --nproc-per-node 2 ./train");
  }
  std::vector<std::string> command = request.program;
  if (is_python(command.front())) {
    command.insert(command.begin(), "python3");
  }
  return command;
}

}  // namespace

std::string describe(const Source& source) {
  switch (source.origin) {
    case Origin::Flag:
      return "flag " + source.detail;
    case Origin::Variable:
      return "variable " + source.detail;
    case Origin::Probe:
      return "probe: " + source.detail;
    case Origin::Default:
      return source.detail.empty() ? "default" : "default: " + source.detail;
  }
  return "";
}

LaunchPlan make_plan(const Request& request, const Surroundings& here) {
  LaunchPlan plan;
  plan.command = read_command(request);
  plan.run_id =
      fmt::format("{}-{}-{}", to_file_name(request.program.front()), here.timestamp, here.short_id);
  plan.run_directory = read_run_directory(request, here, plan.run_id);
  plan.master_addr = request.master_addr ? from_flag(*request.master_addr, "--master-addr")
                                         : from_default<std::string>("127.0.0.1");
  plan.master_port = read_port(request, here);
  plan.grace_seconds = read_grace(request);
  plan.max_restarts = from_default(0);
  plan.variables = read_variables(request);
  if (is_python(request.program.front())) {
    add_where_unset(plan.variables,
                    here.environment,
                    "PYTHONUNBUFFERED",
                    from_default<std::string>("1", "lines appear when they are printed"));
  }
  if (here.terminal_columns) {
    plan.variables.emplace(contract::kTerminalColumns,
                           from_probe(std::to_string(*here.terminal_columns), "the terminal"));
  }
  plan.variables.emplace(contract::kCommandTime, from_probe(here.command_time, "the clock"));

  Node node{.name = here.node, .workers = read_workers(request, here), .variables = {}};
  if (!plan.variables.contains(std::string(kThreads))) {
    const int threads = std::max(1, here.cores / node.workers.value);
    add_where_unset(
        node.variables,
        here.environment,
        kThreads,
        from_probe(std::to_string(threads),
                   fmt::format("{} granted cores for {} workers", here.cores, node.workers.value)));
  }
  plan.nodes.push_back(std::move(node));
  return plan;
}

int world_size(const LaunchPlan& plan) {
  return std::accumulate(plan.nodes.begin(), plan.nodes.end(), 0, [](int sum, const Node& node) {
    return sum + node.workers.value;
  });
}

contract::WorkerPlace place_of(const LaunchPlan& plan, int node, int local_rank, int attempt) {
  const auto before = std::span(plan.nodes).first(static_cast<size_t>(node));
  const int first_rank =
      std::accumulate(before.begin(), before.end(), 0, [](int sum, const Node& earlier) {
        return sum + earlier.workers.value;
      });
  return {.rank = first_rank + local_rank,
          .world_size = world_size(plan),
          .local_rank = local_rank,
          .local_world_size = plan.nodes.at(static_cast<size_t>(node)).workers.value,
          .node_rank = node,
          .nodes = static_cast<int>(plan.nodes.size()),
          .master_addr = plan.master_addr.value,
          .master_port = plan.master_port.value,
          .interface = "",
          .run_id = plan.run_id,
          .run_directory = plan.run_directory.value,
          .attempt = attempt,
          .max_restarts = plan.max_restarts.value};
}

os::Environment worker_environment(const LaunchPlan& plan,
                                   const contract::WorkerPlace& place,
                                   const os::Environment& agents_own) {
  os::Environment environment = agents_own;
  // Left over when one lockstep runs inside another.
  environment.erase(std::string(contract::kForkOffer));
  environment.erase(std::string(contract::kTerminalColumns));
  for (const auto& [name, value] : plan.variables) {
    environment.insert_or_assign(name, value.value);
  }
  for (const auto& [name, value] : plan.nodes.at(static_cast<size_t>(place.node_rank)).variables) {
    environment.insert_or_assign(name, value.value);
  }
  for (const auto& [name, value] : contract::to_environment(place)) {
    environment.insert_or_assign(name, value);
  }
  return environment;
}

}  // namespace lockstep::plan
