// SPDX-License-Identifier: Apache-2.0
//
// The agent has no state machine of its own: it executes each command at once, in the order of
// arrival, and the phase of a run exists only in the Leader. What it keeps per attempt is group_,
// ports_, horovod_ and stop_at_. They are replaced by the next Start or Prepare, not at the end of
// an attempt: Explain still needs the group, and the ports stay reserved as long as workers may use
// them.
#include "launcher/supervisor/node/node_agent.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/base/deadline.h"
#include "common/base/log.h"
#include "common/cluster/cores.h"
#include "common/cluster/gpus.h"
#include "common/cluster/interfaces.h"
#include "common/os/host.h"
#include "common/os/peer_watch.h"
#include "launcher/supervisor/node/placement.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

// A process that waits for a dead file server does not react even to SIGKILL.
constexpr std::chrono::seconds kKillTime(10);
// Longer than the time between a signal of Slurm and the Stop that the leader sends because of it.
constexpr std::chrono::seconds kSameCall(2);
// Time in which Slurm may signal the workers of this node itself; see on(Stop).
constexpr std::chrono::milliseconds kSlurmsTurn(150);

}  // namespace

NodeAgent::NodeAgent(Options options,
                     os::Reactor& reactor,
                     LineSink& sink,
                     std::function<void(const Report&)> report)
    : options_(std::move(options)), reactor_(reactor), sink_(sink), report_(std::move(report)) {}

// Their descriptors are registered in the reactor of the caller, which lives longer.
NodeAgent::~NodeAgent() {
  stop_sampling();
  if (listener_) {
    reactor_.forget(listener_->fd());
  }
  if (prober_) {
    reactor_.forget(prober_->fd());
  }
}

Join NodeAgent::offer(const std::optional<ProbeSecret>& secret) {
  Join join;
  join.name = os::host_name();
  join.machine = os::machine_identity();
  join.cores = cluster::granted_cores();
  join.gpus = cluster::list_gpu_devices(options_.environment).count();
  if (secret) {
    secret_ = secret;
    join.addresses = cluster::list_addresses();
    listener_ = std::make_unique<ProbeListener>(*secret);
    reactor_.watch(listener_->fd(), os::Reactor::For::Read, [this] { listener_->take(); });
    join.probe_port = listener_->port();
  }
  return join;
}

void NodeAgent::execute(const Command& command) {
  std::visit([this](const auto& one) { on(one); }, command);
}

// A Probe replaces one in progress: the leader waits only for results of the newest round.
void NodeAgent::on(const Probe& probe) {
  if (prober_) {
    reactor_.forget(prober_->fd());
  }
  probe_round_ = probe.round;
  prober_ = std::make_unique<Prober>(
      secret_.value_or(ProbeSecret{}),
      probe.self,
      probe.targets,
      ProberOptions{.timeout = std::chrono::milliseconds(probe.timeout_ms)});
  reactor_.watch(prober_->fd(), os::Reactor::For::Read, [this] { prober_->take(); });
}

// The old ports are given up before new ones are reserved. A reservation protects against other
// runs of lockstep only, so the numbers can still be taken by another program until the workers
// listen.
void NodeAgent::on(const Prepare& prepare) {
  try {
    if (prepare.wanted_port != 0) {
      require_port(prepare.wanted_host, prepare.wanted_port);
    }
    ports_.clear();
    ports_ = os::reserve_ports(prepare.ports);
    std::vector<int> numbers;
    for (const os::ReservedPort& port : ports_) {
      numbers.push_back(port.number());
    }
    report_(Prepared{.attempt = prepare.attempt, .ports = std::move(numbers)});
  } catch (const Error& error) {
    report_(Refused{
        .attempt = prepare.attempt, .code = static_cast<int>(error.code()), .text = error.what()});
  }
}

// The store is new in every attempt: keys of the last attempt would connect workers to addresses
// that do not exist any more. A server that cannot start is not an error, since most programs do
// not use Horovod. The old group is destroyed before the new one is created, because its destructor
// can kill all children of this process.
void NodeAgent::on(const Start& start) {
  spec_ = start.spec;
  if (options_.only_stores_spec) {
    report_(Started{.attempt = start.spec.first.attempt});
    return;
  }
  const auto& first = start.spec.first;
  if (start.spec.serves_horovod()) {
    horovod_ = std::make_unique<HorovodStore>();
    if (!horovod_->start(first.horovod_addr, first.horovod_port)) {
      log::warn("agent: cannot start the Horovod rendezvous server on port {}", first.horovod_port);
    }
  }
  try {
    group_.reset();  // of the previous attempt
    stop_at_.reset();
    group_ = std::make_unique<WorkerGroup>(
        WorkerGroup::Options{.spec = start.spec,
                             .environment = options_.environment,
                             .descriptor_limit = options_.descriptor_limit},
        reactor_,
        sink_,
        report_);
    group_->start();
    watch_node();
  } catch (const Error& error) {
    group_.reset();
    report_(Refused{.attempt = start.spec.first.attempt,
                    .code = static_cast<int>(error.code()),
                    .text = error.what()});
  }
}

// The thread survives restarts, unless the node gets another rank: samples then have no gap, and
// the driver is initialized once.
void NodeAgent::watch_node() {
  const int node = spec_->first.node_rank;
  if (sample_thread_ && sampled_node_ != node) {
    stop_sampling();  // the node has another rank in this attempt
  }
  if (spec_->sample_every_seconds <= 0) {
    return;
  }
  if (!sample_thread_) {
    sampled_node_ = node;
    sample_thread_ = std::make_unique<SampleThread>(
        std::chrono::duration<double>(spec_->sample_every_seconds), [node]() -> SampleThread::Look {
          const auto sampler =
              std::make_shared<cluster::NodeSampler>(cluster::NodeSampler::Options{.node = node});
          return [sampler](const SampleThread::Workers& workers) {
            return sampler->sample(workers);
          };
        });
    reactor_.watch(sample_thread_->fd(), os::Reactor::For::Read, [this] { take_samples(); });
  }
  sample_thread_->set_workers(group_->watched());
}

// The list of workers is renewed after every sample. The thread can still look at a process that
// has just ended, which the sampler must tolerate.
void NodeAgent::take_samples() {
  if (std::string lines = sample_thread_->take_lines(); !lines.empty()) {
    report_(Recorded{
        .kind = Recorded::Kind::Samples, .number = sampled_node_, .lines = std::move(lines)});
  }
  if (const std::string fault = sample_thread_->take_fault(); !fault.empty()) {
    log::warn("agent: stopped sampling this node: {}", fault);
    stop_sampling();
    return;
  }
  sample_thread_->set_workers(group_ ? group_->watched() : SampleThread::Workers());
}

void NodeAgent::stop_sampling() {
  if (sample_thread_) {
    reactor_.forget(sample_thread_->fd());
    sample_thread_.reset();
  }
}

void NodeAgent::note_signalled(int signal) {
  signalled_[signal] = Clock::now();
}

bool NodeAgent::was_signalled(int signal) const {
  const auto found = signalled_.find(signal);
  return found != signalled_.end() && Clock::now() - found->second < kSameCall;
}

// When an allocation ends, Slurm may signal the workers of all nodes itself, on this node a moment
// later than on the one whose agent reported it. The stop is therefore delayed by kSlurmsTurn, so
// that workers do not receive SIGTERM twice. take_news() ends the delay.
void NodeAgent::on(const Stop& stop) {
  if (!group_) {
    return;
  }
  if (stop.is_asked && options_.environment.contains("SLURM_JOB_ID") && !was_signalled(SIGTERM)) {
    stop_at_ = Clock::now() + kSlurmsTurn;
    grace_seconds_ = stop.grace_seconds;
  } else {
    group_->stop(stop.grace_seconds, !was_signalled(SIGTERM));
  }
}

void NodeAgent::on(const Kill& /*kill*/) {
  if (group_) {
    group_->kill();
  }
}

void NodeAgent::on(const Pass& pass) {
  if (group_ && !was_signalled(pass.signal)) {
    group_->pass(pass.signal);
  }
}

// Without a group (the start was refused) the leader has no use for an answer; it continues after
// its timeout.
void NodeAgent::on(const Explain& explain) {
  if (group_) {
    report_(Explained{.process = explain.process,
                      .failure = to_json(group_->explain(explain.process))});
  }
}

void NodeAgent::on(const Credit& /*credit*/) {}  // handled by Forwarder

// Workers can be left when the leader gives up early: a refused start on another node, or an error.
// The agent stays until they are gone, but not longer than kKillTime.
void NodeAgent::on(const Release& release) {
  stop_sampling();
  if (is_busy()) {
    group_->kill();
    give_up_ = Clock::now() + kKillTime;
  }
  release_ = release;
}

void NodeAgent::on(const Ask& ask) {
  report_(Answered{.text = options_.answer ? options_.answer(ask.text) : ""});
}

bool NodeAgent::is_busy() const {
  return group_ != nullptr && !group_->is_over() && (!give_up_ || Clock::now() < *give_up_);
}

// The destructor of the group kills the workers without a grace period: the agents of the other
// nodes lose the leader at the same time and do the same.
void NodeAgent::abandon() {
  stop_sampling();
  group_.reset();
  horovod_.reset();
}

// Probes are advanced here in addition to their handlers, because their timeouts expire without an
// event of a descriptor.
void NodeAgent::take_news() {
  if (prober_) {
    prober_->take();
    if (prober_->is_done()) {
      reactor_.forget(prober_->fd());
      const std::unique_ptr<Prober> done = std::move(prober_);
      report_(Probed{.round = probe_round_, .trials = done->trials()});
    }
  }
  if (listener_) {
    listener_->take();
  }
  if (group_ && stop_at_ && (Clock::now() >= *stop_at_ || was_signalled(SIGTERM))) {
    stop_at_.reset();
    group_->stop(grace_seconds_, !was_signalled(SIGTERM));
  }
  if (group_) {
    group_->take_news();
  }
}

std::optional<NodeAgent::Clock::time_point> NodeAgent::deadline() const {
  return earliest({group_ ? group_->deadline() : std::nullopt,
                   stop_at_,
                   prober_ ? prober_->next_deadline() : std::nullopt,
                   listener_ ? listener_->next_deadline() : std::nullopt});
}

}  // namespace lockstep::supervisor
