// SPDX-License-Identifier: Apache-2.0
//
// The roles of this process by launch mode:
//
//   Local        RunSupervisor with a local agent, no control plane
//   Srun, Ssh    RunSupervisor without a local agent; lockstep agent (run_agent) on every node
//   Peers        the first process: RunSupervisor with a local agent; the others: Follower
//   Task         as Peers among the processes of local rank 0; then all processes become workers
//
// Invariant: a process that starts srun or ssh has no local agent, and one with a local agent keeps
// no other children (the dashboard is a child of the guard). WorkerGroup relies on it when it kills
// "all children".
#include "launcher/supervisor/leader/launch.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "common/base/text.h"
#include "common/cluster/interfaces.h"
#include "common/cluster/slurm_env.h"
#include "common/contract/worker_env.h"
#include "common/os/host.h"
#include "common/os/process.h"
#include "common/os/signals.h"
#include "launcher/supervisor/leader/run_supervisor.h"
#include "launcher/supervisor/node/become_worker.h"
#include "launcher/supervisor/node/follower.h"
#include "launcher/supervisor/node/placement.h"
#include "launcher/supervisor/protocol/rendezvous.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

namespace fs = std::filesystem;

// Returns the descriptor limit for the workers: the one before this process raised its own.
// SIGPIPE: a reader of the output that exits (`lockstep run | head`) must not end the run. SIGTTOU:
// a launcher in the background of a terminal with `stty tostop` must not be stopped by its own
// output. Subreaper: background processes of workers become children of this process when their
// parent exits, so that none survives the run.
uint64_t prepare_process() {
  os::ignore_signal(SIGPIPE);
  os::ignore_signal(SIGTTOU);
  os::become_subreaper();
  return os::raise_descriptor_limit();
}

void require_control_plane() {
  if (!has_control_plane()) {
    throw Error(ExitCode::Unavailable, "cannot run on several nodes: built without ZeroMQ's CURVE")
        .hint("apt install libzmq3-dev, then rebuild lockstep");
  }
}

// The secret is the only protection of the keys derived from it, and an attacker who records a
// handshake can test guesses offline. 16 characters exclude accidental words.
std::optional<std::string> find_secret(const os::Environment& environment) {
  constexpr size_t kMinimum = 16;
  auto secret = os::find_variable(environment, contract::kSecret);
  if (secret && secret->size() < kMinimum) {
    throw Error(ExitCode::Usage, fmt::format("{} is too short", contract::kSecret))
        .fact("expected", fmt::format("at least {} characters", kMinimum))
        .fact("found", fmt::format("{} characters", secret->size()), "environment")
        .hint(fmt::format("export {}=$(openssl rand -hex 32), the same on all nodes",
                          contract::kSecret));
  }
  return secret;
}

// Whether --rdzv-endpoint names this machine. A host name can have several addresses, and a machine
// several names, hence the comparison by address. An alias that does not resolve here makes all
// nodes wait for a leader; Follower reports it after its timeout.
bool is_own_host(const std::string& host) {
  const std::vector<std::string> wanted = os::addresses_of(host);
  const std::vector<cluster::Address> own = cluster::list_addresses();
  return host == os::host_name() ||
         std::any_of(own.begin(), own.end(), [&wanted](const cluster::Address& address) {
           return std::find(wanted.begin(), wanted.end(), address.text) != wanted.end();
         });
}

// LaunchMode::Peers and LaunchMode::Task: one of several processes, one per node, that were started
// manually or by another launcher. One of them leads: node 0, or the process that binds the port of
// the rendezvous.
class Peer {
 public:
  // The secret is removed from the environment here, so that no worker can inherit it.
  Peer(const plan::LaunchPlan& plan, const os::Environment& environment, uint64_t descriptors)
      : plan_(plan),
        environment_(environment),
        descriptors_(descriptors),
        secret_(find_secret(environment)) {
    environment_.erase(std::string(contract::kSecret));
    if (!secret_) {
      file_ = rendezvous_path(plan.rendezvous, environment);
    }
  }

  int run() {
    const std::optional<int> node = plan_.rendezvous.node;
    if (node ? *node == 0 : is_own_host(plan_.rendezvous.host)) {
      if (auto supervisor = try_lead(/*must=*/node.has_value())) {
        std::optional<RendezvousFile> posted;  // with a secret, nodes need no file
        if (!secret_) {
          posted.emplace(file_, supervisor->rendezvous_point());
        }
        const int code = supervisor->run();
        spec_ = plan_.mode.value == plan::LaunchMode::Task ? supervisor->spec() : std::nullopt;
        return code;
      }
    }
    Follower follower(
        {.find_rendezvous = [this] { return find_rendezvous(); },
         .what_is_tried = what_is_tried(),
         .patience = std::chrono::duration<double>(plan_.start_timeout_seconds.value),
         .node = node,
         .sort_key = plan_.rendezvous.rank,
         .count_workers = [this](const Join& join) { return own_workers(plan_, join); },
         .local_addr = plan_.local_addr.value,
         .only_stores_spec = plan_.mode.value == plan::LaunchMode::Task,
         .descriptor_limit = descriptors_,
         .fault = "",
         .fault_code = 0},
        environment_);
    const int code = follower.run();
    spec_ = follower.spec();
    return code;
  }

  const std::optional<plan::NodeSpec>& spec() const { return spec_; }

 private:
  // Becomes the leader. Without a node rank, several processes of this machine may try; the port
  // decides, and the others get nullptr.
  std::unique_ptr<RunSupervisor> try_lead(bool must) {
    try {
      return std::make_unique<RunSupervisor>(
          plan_,
          environment_,
          RunSupervisor::Options{
              .has_local_agent = true,
              .keys = secret_ ? derive_keys(*secret_, plan_.rendezvous.name) : make_keys(),
              .port = plan_.rendezvous.port,
              .only_stores_spec = plan_.mode.value == plan::LaunchMode::Task,
              .descriptor_limit = descriptors_});
    } catch (const Error& error) {
      if (must || error.code() != ExitCode::Unavailable) {
        throw;
      }
      return nullptr;  // the leader has the port
    }
  }

  std::optional<RendezvousPoint> find_rendezvous() const {
    if (!secret_) {
      return find_rendezvous_in(file_);
    }
    RendezvousPoint point;
    for (const std::string& address : os::addresses_of(plan_.rendezvous.host)) {
      point.endpoints.push_back({address, plan_.rendezvous.port});
    }
    point.keys = derive_keys(*secret_, plan_.rendezvous.name);
    point.keys.server_secret.clear();
    return point.endpoints.empty() ? std::nullopt : std::optional(point);
  }

  std::string what_is_tried() const {
    return secret_ ? fmt::format("{}:{} with {}",
                                 plan_.rendezvous.host,
                                 plan_.rendezvous.port,
                                 contract::kSecret)
                   : fmt::format(
                         "the file {}, written by node 0; nodes without a shared home "
                         "directory need {} or {}",
                         file_.string(),
                         contract::kRendezvousDirectory,
                         contract::kSecret);
  }

  const plan::LaunchPlan& plan_;
  os::Environment environment_;
  uint64_t descriptors_;
  std::optional<std::string> secret_;
  fs::path file_;
  std::optional<plan::NodeSpec> spec_;
};

// Changes to the directory. Returns an error message; empty on success.
std::string enter(const std::string& directory) {
  std::error_code fault;
  if (!directory.empty()) {
    fs::current_path(directory, fault);
  }
  return fault ? fmt::format(
                     "cannot change to {}: {}; start the run in a directory that exists on all "
                     "nodes",
                     directory,
                     fault.message())
               : "";
}

}  // namespace

int run(const plan::LaunchPlan& plan, const os::Environment& environment) {
  const uint64_t descriptors = prepare_process();
  switch (plan.mode.value) {
    case plan::LaunchMode::Local:
      return RunSupervisor(plan, environment, {.keys = {}, .descriptor_limit = descriptors}).run();
    case plan::LaunchMode::Srun:
    case plan::LaunchMode::Ssh:
      require_control_plane();
      return RunSupervisor(
                 plan,
                 environment,
                 {.has_local_agent = false, .keys = make_keys(), .descriptor_limit = descriptors})
          .run();
    case plan::LaunchMode::Peers:
      require_control_plane();
      return Peer(plan, environment, descriptors).run();
    // Exactly one process per node (local rank 0) takes part in the rendezvous. It removes the
    // specs of an earlier run before it joins, hence before a new one can exist. Peer must be
    // destroyed before exec, which would kill the threads of ZeroMQ: its destructor waits until
    // they have sent the queued messages.
    case plan::LaunchMode::Task: {
      require_control_plane();
      if (plan.rendezvous.local_rank != 0) {
        become_worker(plan, wait_for_spec(plan, environment), environment);
      }
      clear_specs(plan, environment);
      plan::NodeSpec spec;
      {
        Peer peer(plan, environment, descriptors);
        const int code = peer.run();
        if (code != 0 || !peer.spec()) {
          return code;
        }
        spec = *peer.spec();
      }
      post_spec(plan, spec, environment);
      become_worker(plan, spec, environment);
    }
  }
  return static_cast<int>(ExitCode::Bug);
}

// The rendezvous contains the keys. It is erased from the environment before the first worker
// starts. Variables of the user replace those that sshd or the login shell of this node set. A
// directory that does not exist here is not an error yet: the agent joins and reports it, so that
// the leader can name the node.
int run_agent(os::Environment environment,
              bool from_stdin,
              std::function<std::string(const std::string&)> answer) {
  const uint64_t descriptors = prepare_process();
  require_control_plane();
  std::string text;
  if (from_stdin) {
    std::getline(std::cin, text);
  } else {
    text = os::find_variable(environment, contract::kRendezvous).value_or("");
    environment.erase(std::string(contract::kRendezvous));
  }
  if (text.empty()) {
    throw Error(ExitCode::Usage, "cannot join a run: no rendezvous given")
        .fact("expected",
              fmt::format("{}, or a line on standard input with --stdin", contract::kRendezvous))
        .hint("lockstep run, which starts the agents itself");
  }
  const RendezvousPoint point = decode_rendezvous_point(text);
  for (const auto& [name, value] : point.environment) {
    environment.insert_or_assign(name, value);
  }
  const std::string fault = enter(point.directory);
  std::optional<int> node = point.node;
  if (const auto step = cluster::find_slurm_step(environment); !node && step) {
    node = step->node;
  }
  constexpr std::chrono::seconds kPatience(30);
  Follower follower(
      {.find_rendezvous = [&point] { return std::optional(point); },
       .what_is_tried = fmt::format("{} addresses of the leader", point.endpoints.size()),
       .patience = kPatience,
       .node = node,
       .sort_key = 0,
       .count_workers = {},
       .local_addr = "",
       .only_stores_spec = false,
       .descriptor_limit = descriptors,
       .fault = fault,
       .fault_code = static_cast<int>(ExitCode::Unavailable),
       .starter_fd = 1,  // closed when ssh or the leader dies
       .answer = std::move(answer)},
      environment);
  follower.run();
  return 0;  // the leader reports the result; srun must not report a second one
}

}  // namespace lockstep::supervisor
