// SPDX-License-Identifier: Apache-2.0
//
// make_plan() is a pure function of the options and of a snapshot of this host (HostEnvironment):
// no file, process or clock. --dry-run therefore shows exactly what a run would do, and tests need
// no cluster.
//
// The order of the steps follows their dependencies:
//
//   program, sizes --> conflicts --> launch target --> workers per node --> settle()
//     --> requeue --> run id and directory --> everything that depends on the mode
#include "launcher/plan/plan.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "common/base/text.h"
#include "common/contract/worker_env.h"
#include "launcher/plan/conflicts.h"
#include "launcher/plan/launch_target.h"
#include "launcher/plan/metric.h"
#include "launcher/plan/parse_options.h"
#include "launcher/plan/program.h"
#include "launcher/plan/requeue.h"
#include "launcher/plan/workers.h"
#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

Sourced<std::string> read_text(const Option& option, std::string_view flag, std::string fallback) {
  return option ? Sourced<std::string>{option->text, source_of(*option, flag)}
                : from_default(std::move(fallback));
}

// Adds the nodes with their workers and drops those that -np leaves without workers. target.hosts
// is reduced in the same way, because settle() looks at the hosts that are left.
void place_nodes(LaunchPlan& plan, LaunchTarget& target, const WorkerCounts& counts) {
  std::vector<cluster::Host> used;
  for (size_t i = 0; i < target.hosts.size(); ++i) {
    cluster::Host& host = target.hosts[i];
    if (counts.per_node[i].value > 0 || counts.rule != WorkerRule::Number) {
      plan.nodes.push_back(
          {.name = host.name, .workers = counts.per_node[i], .variables = {}, .gpus = host.gpus});
      used.push_back(std::move(host));
    }
  }
  target.hosts = std::move(used);
  plan.worker_rule = counts.rule;
}

// Whether the agents start MPS. A task of another launcher replaces itself with the worker, so no
// process remains that could stop the daemon.
bool read_sharing(const Request& request, LaunchMode mode) {
  if (!request.gpu_sharing || request.gpu_sharing->text == "time-slicing") {
    return false;
  }
  const OptionValue& given = *request.gpu_sharing;
  if (given.text != "mps") {
    throw invalid_value(given, "--share-gpus", "mps or time-slicing").hint("--share-gpus=mps");
  }
  if (mode == LaunchMode::Task) {
    throw Error(ExitCode::Usage,
                "cannot start MPS: each task becomes a worker, and no agent remains")
        .fact("requested", said(given, "--share-gpus"), given.source)
        .fact("found", "one task per worker", "another launcher")
        .hint("start one task per node: srun --ntasks-per-node=1 lockstep run ...");
  }
  return true;
}

// settle() runs a second time here (the first time in on_hosts()): -np can have removed all hosts
// but this one, and a run on this machine alone needs no ssh. --rdzv-id names the rendezvous of a
// manual run. Under another launcher the name comes from that launcher, because it must be the same
// in all processes.
void read_nodes_and_workers(LaunchPlan& plan,
                            const Request& request,
                            const HostEnvironment& here,
                            const Sizes& sizes,
                            LaunchTarget& target) {
  place_nodes(plan, target, count_workers(request, here, sizes, target));
  settle(target, here);
  plan.nodes.front().name = target.hosts.front().name;
  plan.mode = target.mode;
  plan.min_nodes = {std::min(target.min_nodes, static_cast<int>(plan.nodes.size())),
                    sizes.nodes ? sizes.nodes->source : target.mode.source};
  plan.rendezvous = target.rendezvous;
  plan.may_share_gpus = request.may_share_gpus;
  plan.starts_mps = read_sharing(request, target.mode.value);
  if (!request.rdzv_id) {
    return;
  }
  if (plan.mode.value == LaunchMode::Task ||
      (plan.mode.value == LaunchMode::Peers && !target.is_manual)) {
    plan.remarks.push_back(fmt::format("{} is not needed: {} provides the ranks",
                                       said(*request.rdzv_id, "--rdzv-id"),
                                       target.named_by));
  } else {
    plan.rendezvous.name = request.rdzv_id->text;
  }
}

// The run id: the name of the program and a unique suffix. Tasks that become workers have no leader
// to distribute an id, so they derive it from values that all of them know. A requeued job keeps
// its id.
void read_name(LaunchPlan& plan, const Request& request, const HostEnvironment& here) {
  const std::string& program = request.program.front();
  const std::string name =
      to_file_name(request.is_module ? program : std::filesystem::path(program).stem().string());
  if (plan.mode.value == LaunchMode::Task) {
    plan.run_id = fmt::format("{}-{}", name, plan.rendezvous.name);
  } else if (plan.requeue) {
    plan.run_id = fmt::format("{}-{}", name, here.job->id);
  } else {
    plan.run_id = fmt::format("{}-{}-{}", name, here.timestamp, here.short_id);
  }
  plan.run_directory =
      request.run_dir
          ? read_path(*request.run_dir, "--run-dir", here.directory)
          : from_default((std::filesystem::path(here.directory) / "runs" / plan.run_id).string());
}

// In a manual run without --rdzv-endpoint, --master-addr and --master-port name the control port of
// node 0, as in torchrun's static rendezvous. The store of the workers then gets a port of its own.
void read_master(LaunchPlan& plan, const Request& request, bool is_spent_on_rendezvous) {
  const NumberRule port_rule{.flag = "--master-port",
                             .minimum = 1,
                             .maximum = 65535,
                             .hint = "drop --master-port: lockstep chooses a free port"};
  plan.master_addr = plan.mode.value == LaunchMode::Local ? from_default<std::string>("127.0.0.1")
                                                          : from_default<std::string>("");
  plan.master_port = from_default(0);
  if (request.master_addr && !is_spent_on_rendezvous) {
    plan.master_addr = {read_host(*request.master_addr, "--master-addr"),
                        source_of(*request.master_addr, "--master-addr")};
  }
  if (request.master_port && !is_spent_on_rendezvous) {
    plan.master_port = read_number(*request.master_port, port_rule);
  }
}

void read_interfaces(LaunchPlan& plan, const Request& request) {
  plan.interfaces = read_text(request.network_interfaces, "--network-interfaces", "");
  for (const std::string& name : split(plan.interfaces.value, ',')) {
    if (name.empty() || name.find_first_of(" /") != std::string::npos) {
      throw invalid_value(
          *request.network_interfaces, "--network-interfaces", "names, separated by commas")
          .hint("--network-interfaces eth0,ib0");
    }
  }
  plan.local_addr = from_default<std::string>("");
  if (request.local_addr) {
    plan.local_addr = {read_host(*request.local_addr, "--local-addr"),
                       source_of(*request.local_addr, "--local-addr")};
  }
}

void read_ssh(LaunchPlan& plan, const Request& request, const HostEnvironment& here) {
  plan.ssh_port = from_default(0, "ssh configuration");
  plan.ssh_identity = from_default<std::string>("", "ssh configuration");
  if (request.ssh_port) {
    plan.ssh_port = read_number(
        *request.ssh_port, {.flag = "--ssh-port", .minimum = 1, .maximum = 65535, .hint = "-p 22"});
  }
  if (request.ssh_identity) {
    plan.ssh_identity = read_path(*request.ssh_identity, "--ssh-identity-file", here.directory);
  }
  const Option& needless = request.ssh_port ? request.ssh_port : request.ssh_identity;
  if (needless && plan.mode.value != LaunchMode::Ssh) {
    plan.remarks.push_back(
        fmt::format("{} is not needed: no host is started over ssh",
                    said(*needless, request.ssh_port ? "--ssh-port" : "--ssh-identity-file")));
  }
}

// Defaults are those of the emulated launcher, because scripts rely on them: 30 s in horovodrun,
// 600 s (join_timeout) in torchrun, where a user starts the nodes one after the other.
Sourced<double> read_start_timeout(const Request& request,
                                   const HostEnvironment& here,
                                   const RendezvousOptions& rules,
                                   LaunchMode mode) {
  constexpr SecondsRule kRule{
      .flag = "--start-timeout", .minimum = 1, .hint = "--start-timeout 120"};
  if (request.start_timeout) {
    return read_seconds(*request.start_timeout, kRule);
  }
  if (rules.start_timeout) {
    return {*rules.start_timeout, source_of(*request.rdzv_conf, "--rdzv-conf")};
  }
  if (request.dialect == Dialect::Horovodrun) {
    if (const auto set = os::find_variable(here.environment, "HOROVOD_START_TIMEOUT")) {
      return read_seconds({.text = *set, .source = "HOROVOD_START_TIMEOUT", .flag = ""}, kRule);
    }
    return from_default(30.0, "as in horovodrun");
  }
  return mode == LaunchMode::Peers ? from_default(600.0, "as in torchrun") : from_default(120.0);
}

void read_supervision(LaunchPlan& plan, const Request& request) {
  plan.grace_seconds =
      request.grace
          ? read_seconds(*request.grace, {.flag = "--grace", .minimum = 0, .hint = "--grace 30"})
          : from_default(30.0);
  plan.timeout_seconds =
      request.timeout ? read_timeout(*request.timeout) : from_default(0.0, "no limit");
  plan.max_restarts = request.max_restarts ? read_number(*request.max_restarts,
                                                         {.flag = "--max-restarts",
                                                          .minimum = 0,
                                                          .maximum = 1'000'000,
                                                          .hint = "--max-restarts 3"})
                                           : from_default(0);
  plan.role = read_text(request.role, "--role", "default");
  if (request.monitor_interval) {
    read_seconds(*request.monitor_interval,
                 {.flag = "--monitor-interval", .minimum = 0, .hint = "drop --monitor-interval"});
    plan.remarks.push_back(said(*request.monitor_interval, "--monitor-interval") +
                           " is not needed: the kernel reports the exit of a worker immediately");
  }
}

// Binding is a default only where the cores belong to this job alone. On a shared machine two runs
// would bind their workers to the same first cores.
Sourced<Bind> read_binding(const Request& request, const HostEnvironment& here, LaunchMode mode) {
  if (!request.bind) {
    if (mode == LaunchMode::Task) {
      return from_default(Bind::None, "the launcher of the tasks binds them");
    }
    return (here.job || here.step) && !here.is_nested && mode != LaunchMode::Ssh
               ? from_default(Bind::Core, "Slurm grants these cores to this job only")
               : from_default(Bind::None, "other programs can use these cores");
  }
  const Bind bind = read_bind(*request.bind);
  if (bind == Bind::Gpu && mode == LaunchMode::Local && here.gpus == 0) {
    Error error(ExitCode::Usage, "cannot bind workers to GPUs: this node has no GPU");
    error.fact("requested", said(*request.bind, "--bind"), request.bind->source);
    add_missing_gpus(error, here);
    error.hint("--bind core");
    throw std::move(error);
  }
  return {bind, source_of(*request.bind, "--bind")};
}

// Without --log-dir, torchrun writes to a new temporary directory. Here the files are kept with the
// run.
void read_output(LaunchPlan& plan, const Request& request, const HostEnvironment& here) {
  OutputRules& output = plan.output;
  if (request.redirects) {
    output.redirects = read_streams(*request.redirects, "--redirects");
  }
  if (request.tee) {
    output.tee = read_streams(*request.tee, "--tee");
  }
  if (request.local_ranks_filter) {
    output.local_ranks_filter = read_local_ranks(*request.local_ranks_filter);
  }
  if (request.log_dir) {
    output.log_dir = read_path(*request.log_dir, "--log-dir", here.directory).value;
  } else if (output.redirects != StreamRule{} || output.tee != StreamRule{}) {
    output.log_dir = (std::filesystem::path(plan.run_directory.value) / "streams").string();
  }
  if (request.output_filename) {
    output.output_filename =
        read_path(*request.output_filename, "--output-filename", here.directory).value;
  }
  plan.metrics = read_metrics(request.metrics);
  plan.sample_every_seconds =
      request.sample_every ? read_sample_every(*request.sample_every) : from_default(1.0);
}

// emplace() keeps an earlier value: --env and -x win over the environment, the environment wins
// over defaults of the launcher.
void add_variables(LaunchPlan& plan, const Request& request, const HostEnvironment& here) {
  plan.variables = read_variables(request, here);
  if (runs_python(plan)) {
    add_where_unset(plan.variables,
                    here.environment,
                    "PYTHONUNBUFFERED",
                    from_default<std::string>("1", "output appears immediately"));
  }
  if (here.terminal_columns) {
    plan.variables.emplace(contract::kTerminalColumns,
                           from_probe(std::to_string(*here.terminal_columns), "the terminal"));
  }
  plan.variables.emplace(contract::kCommandTime, from_probe(here.command_time, "the clock"));
  if (plan.variables.contains(std::string(contract::kThreads))) {
    return;
  }
  if (const auto set = os::find_variable(here.environment, contract::kThreads)) {
    plan.variables.emplace(
        contract::kThreads,
        Sourced<std::string>{*set, {ValueSource::Variable, std::string(contract::kThreads)}});
  } else if (plan.mode.value == LaunchMode::Local) {
    // On other nodes, the agent counts the cores that it was granted.
    PlannedNode& node = plan.nodes.front();
    const int threads = contract::threads_per_worker(here.cores, node.workers.value);
    node.variables.emplace(
        contract::kThreads,
        from_probe(std::to_string(threads),
                   fmt::format("{} granted cores for {} workers", here.cores, node.workers.value)));
  }
}

}  // namespace

std::string describe(const Source& source) {
  switch (source.kind) {
    case ValueSource::Flag:
      return "flag " + source.detail;
    case ValueSource::Variable:
      return "variable " + source.detail;
    case ValueSource::Probe:
      return "probe: " + source.detail;
    case ValueSource::Default:
      return source.detail.empty() ? "default" : "default: " + source.detail;
  }
  return "";
}

LaunchPlan make_plan(const Request& request, const HostEnvironment& here) {
  LaunchPlan plan;
  read_program(plan, request, here);
  const Sizes sizes = read_sizes(request);
  require_consistent(request, sizes);
  const RendezvousOptions rules =
      request.rdzv_conf ? read_rdzv_conf(*request.rdzv_conf) : RendezvousOptions{};
  plan.remarks = rules.remarks;
  LaunchTarget target = choose_launch_target(request, here, sizes, rules);
  read_nodes_and_workers(plan, request, here, sizes, target);
  if (request.rdzv_endpoint && !target.is_manual) {
    read_endpoint(*request.rdzv_endpoint);
    plan.remarks.push_back(said(*request.rdzv_endpoint, "--rdzv-endpoint") +
                           (plan.nodes.size() == 1 ? " is not needed: there is one node"
                                                   : " is not needed: rendezvous is automatic"));
  }

  plan.requeue = read_requeue(request, here, plan.mode.value);
  plan.slurm_restarts = here.job ? here.job->restart_count.value_or(0) : 0;
  read_name(plan, request, here);
  read_master(plan, request, target.is_manual && !request.rdzv_endpoint);
  read_interfaces(plan, request);
  read_ssh(plan, request, here);
  plan.start_timeout_seconds = read_start_timeout(request, here, rules, plan.mode.value);
  plan.last_call_seconds =
      rules.last_call
          ? Sourced<double>{*rules.last_call, source_of(*request.rdzv_conf, "--rdzv-conf")}
          : from_default(30.0);
  read_supervision(plan, request);
  plan.bind = read_binding(request, here, plan.mode.value);
  if (plan.mode.value == LaunchMode::Local && !here.no_gpus.empty()) {
    plan.remarks.push_back("the workers have no GPU: " + here.no_gpus);
  }
  read_output(plan, request, here);
  add_variables(plan, request, here);
  return plan;
}

}  // namespace lockstep::plan
