// SPDX-License-Identifier: Apache-2.0
//
// The life of the workers of a node:
//
//   start() --> Started --> take_exits(): Exited per worker --> end_when_empty() --> Stopped
//                                 ^                                 |
//                 stop(), kill() -+                                 +-- kills what workers left
//                                                                   +-- reads output to its end
//
// With a fork server there is a phase in between: until it exits, the workers are its children, and
// the agent neither sees their exits nor may reap them.
//
//   agent -- start --> fork server -- fork --> worker, worker, ...
//     ^  <-- "RANK PID\n" ... ----+ exit            |
//     +------- becomes the parent (subreaper) ------+
//
// Invariant: all children of this process belong to the group (launch.cpp). os::reap_strangers()
// and os::kill_all_children() act on all children and rely on it. The MPS daemon is one of them,
// and therefore new in every attempt, which is useful: a worker that crashes can leave its server
// in a state in which it rejects new clients.
#include "launcher/supervisor/node/worker_group.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "common/base/text.h"
#include "common/cluster/interfaces.h"
#include "common/cluster/oom.h"
#include "common/contract/fork_offer.h"
#include "common/contract/run_directory.h"
#include "common/os/files.h"
#include "common/os/peer_watch.h"
#include "common/os/pipe.h"
#include "launcher/supervisor/node/fork_note.h"
#include "launcher/supervisor/node/placement.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLastLines = 20;
// Blocks the agent for at most this time. A process that survives SIGKILL for so long hangs in the
// kernel, usually in a dead file server.
constexpr milliseconds kCleanUpTime(5000);
constexpr milliseconds kDrainTime(2000);
// Zombies cost nothing but an entry in the process table, so they need not be collected at once.
constexpr milliseconds kReapingTime(100);

// The variables that have the same value in all environments.
os::Environment in_common(const std::vector<os::Environment>& environments) {
  os::Environment common = environments.front();
  for (const os::Environment& other : environments) {
    std::erase_if(common, [&other](const auto& entry) {
      const auto found = other.find(entry.first);
      return found == other.end() || found->second != entry.second;
    });
  }
  return common;
}

}  // namespace

WorkerGroup::WorkerGroup(Options options, os::Reactor& reactor, LineSink& sink, Report report)
    : options_(std::move(options)),
      reactor_(reactor),
      sink_(sink),
      report_(std::move(report)),
      oom_kills_before_(cluster::count_oom_kills()) {}

// The handlers in the reactor refer to this object and to the workers, so they are removed before
// anything is destroyed.
WorkerGroup::~WorkerGroup() {
  for (const Worker& worker : workers_) {
    reactor_.forget(worker.stream_fd(Stream::Out));
    reactor_.forget(worker.stream_fd(Stream::Err));
    reactor_.forget(worker.process_fd());
  }
  if (fork_server_) {
    reactor_.forget(fork_server_->fd());
    reactor_.forget(handover_.number());
  }
  mps_.reset();  // before its process is collected with the other children
  if (!is_over_) {
    kill();
    os::kill_all_children(kCleanUpTime);
  }
}

// Processes first, logs second: the program loads its libraries while this process waits for a slow
// file system. Output stays in the pipes meanwhile. If a log cannot be opened, the caller destroys
// the group, which kills what has been started.
//
// workers_ is complete before watch_streams(), whose handlers keep references to its elements.
// Bound workers are started one by one, because a fork offer has no field for a CPU affinity.
void WorkerGroup::start() {
  const plan::NodeSpec& spec = options_.spec;
  executable_ = require_program(spec.command, options_.environment);
  start_mps();
  const contract::RunDirectory run(spec.first.run_directory);
  os::make_directories(run.log(spec.first.attempt, 0).parent_path());
  workers_.reserve(static_cast<size_t>(spec.workers));
  const auto gid_index = spec.first.interface.empty()
                             ? std::nullopt
                             : cluster::find_roce_gid_index(spec.first.interface);
  const auto devices = place_workers(spec, options_.environment);
  const bool is_bound = std::any_of(devices.begin(), devices.end(), [](const WorkerDevices& one) {
    return !one.cpus.empty() || !one.gpus.empty();
  });
  const bool has_fork_server =
      !is_bound && spec.workers > 1 && program_takes_fork_offer(executable_);
  for (contract::WorkerSpec worker_spec : spec.worker_specs()) {
    worker_spec.error_file = run.error(spec.first.attempt, worker_spec.rank).string();
    // An earlier run in the same directory may have left a file. Removed before the worker starts,
    // which may write its own at once.
    std::error_code gone;
    std::filesystem::remove(worker_spec.error_file, gone);
    worker_spec.roce_gid_index = gid_index;
    workers_.emplace_back(
        worker_spec, log_files(spec.output, worker_spec), [this](const std::string& sentence) {
          if (!has_reported_unwritten_) {
            has_reported_unwritten_ = true;
            report_(Unwritten{.sentence = sentence});
          }
        });
    listen(workers_.back());
    if (!has_fork_server) {
      start_one(workers_.back(), devices.at(workers_.size() - 1));
    }
  }
  if (has_fork_server) {
    start_fork_server();
  }
  for (Worker& worker : workers_) {
    worker.open_logs();
  }
  watch_streams();
  report_(Started{.attempt = spec.first.attempt});
}

// Variables of the spec have precedence over those of the agent and of the user, so that the
// workers find this daemon.
void WorkerGroup::start_mps() {
  plan::NodeSpec& spec = options_.spec;
  if (!spec.starts_mps) {
    return;
  }
  os::Environment environment = options_.environment;
  for (const auto& [name, value] : spec.variables) {
    environment.insert_or_assign(name, value);
  }
  mps_ = std::make_unique<MpsDaemon>(environment);
  for (const auto& [name, value] : mps_->variables()) {
    spec.variables.insert_or_assign(name, value);
  }
  if (mps_->found()) {
    report_(Said{.rank = -1,
                 .stream = Stream::Err,
                 .is_status = false,
                 .text = fmt::format("{}: using the MPS daemon that runs already ({})",
                                     spec.first.node,
                                     mps_->found()->string())});
  }
}

void WorkerGroup::listen(Worker& worker) {
  if (options_.spec.metrics.empty()) {
    return;
  }
  const int rank = worker.spec().rank;
  worker.listen(MetricFinder(rank, options_.spec.metrics), [this, rank](std::string found) {
    report_(Recorded{.kind = Recorded::Kind::Metrics, .number = rank, .lines = std::move(found)});
  });
}

// The inner ends of the pipes are closed at once: as long as the agent holds a write end, the pipe
// never reports its end.
void WorkerGroup::start_one(Worker& worker, const WorkerDevices& devices) {
  os::Environment environment =
      plan::worker_environment(options_.spec, worker.spec(), options_.environment);
  if (!devices.gpus.empty()) {
    environment.insert_or_assign("CUDA_VISIBLE_DEVICES", devices.gpus);
  }
  visible_gpus_[worker.spec().rank] = os::find_variable(environment, "CUDA_VISIBLE_DEVICES");
  worker.adopt(os::start({.executable = executable_,
                          .arguments = worker_arguments(options_.spec, worker.spec()),
                          .environment = std::move(environment),
                          .stdout_fd = worker.stdout_fd(),
                          .stderr_fd = worker.stderr_fd(),
                          .inherited = {},
                          .directory = "",
                          .has_own_group = true,
                          .dies_with_parent = true,
                          .cpus = devices.cpus,
                          .descriptor_limit = options_.descriptor_limit}));
  worker.close_inner_ends();
  reactor_.watch(worker.process_fd(), os::Reactor::For::Read, [this] { may_have_exits_ = true; });
}

// The fork server writes to the streams of its first worker, so that an error of the dynamic loader
// (a missing library) appears in a log and in the failure report.
//
// The environment is split into the part that all workers have in common, which the fork server
// itself gets, and one remainder per worker in the offer. The fork server must not see a value that
// is right for one worker only: a library may read it while it is loaded.
void WorkerGroup::start_fork_server() {
  os::Pipe handover = os::make_pipe();
  os::set_nonblocking(handover.out.number());
  contract::ForkOffer offer{.agent_pid = os::process_id(), .workers = {}};
  std::vector<int> inherited = {handover.in.number()};
  std::vector<os::Environment> own;
  for (const Worker& worker : workers_) {
    own.push_back(plan::worker_environment(options_.spec, worker.spec(), options_.environment));
    visible_gpus_[worker.spec().rank] = os::find_variable(own.back(), "CUDA_VISIBLE_DEVICES");
  }
  os::Environment own_environment = in_common(own);
  for (const auto& [name, value] : contract::to_environment(workers_.front().spec())) {
    own_environment.erase(name);  // the fork server has no rank
  }
  for (size_t i = 0; i < workers_.size(); ++i) {
    std::erase_if(own[i], [&own_environment](const auto& entry) {
      return own_environment.contains(entry.first);
    });
    const Worker& worker = workers_[i];
    offer.workers.push_back({.rank = worker.spec().rank,
                             .stdout_fd = worker.stdout_fd(),
                             .stderr_fd = worker.stderr_fd(),
                             .variables = std::move(own[i])});
    inherited.insert(inherited.end(), {worker.stdout_fd(), worker.stderr_fd()});
  }
  const os::Fd offer_file = os::make_memory_file(contract::to_json(offer));
  inherited.push_back(offer_file.number());
  own_environment.insert_or_assign(std::string(contract::kForkOffer),
                                   fmt::format("{},{}", offer_file.number(), handover.in.number()));
  fork_server_.emplace(os::start({.executable = executable_,
                                  .arguments = options_.spec.command,
                                  .environment = own_environment,
                                  .stdout_fd = workers_.front().stdout_fd(),
                                  .stderr_fd = workers_.front().stderr_fd(),
                                  .inherited = std::move(inherited),
                                  .directory = "",
                                  .has_own_group = true,
                                  .dies_with_parent = true,
                                  .cpus = {},
                                  .descriptor_limit = options_.descriptor_limit}));
  fork_server_pid_ = fork_server_->pid();
  handover_ = std::move(handover.out);
  for (Worker& worker : workers_) {
    worker.close_inner_ends();
  }
  reactor_.watch(fork_server_->fd(), os::Reactor::For::Read, [this] { may_have_exits_ = true; });
  reactor_.watch(handover_.number(), os::Reactor::For::Read, [this] { may_have_exits_ = true; });
}

// While the output is drained, every read extends the wait: what is left in the pipes is not cut
// off because a log is on a slow file system.
void WorkerGroup::watch_streams() {
  for (Worker& worker : workers_) {
    for (const Stream stream : {Stream::Out, Stream::Err}) {
      const int fd = worker.stream_fd(stream);
      reactor_.watch(fd, os::Reactor::For::Read, [this, &worker, stream, fd] {
        const bool is_news = worker.read(stream, sink_);
        if (is_news && drain_until_) {
          drain_until_ = Clock::now() + kDrainTime;
        }
        if (worker.stream_fd(stream) < 0) {
          reactor_.forget(fd);
        }
      });
    }
  }
}

void WorkerGroup::watch_exits() {
  for (const Worker& worker : workers_) {
    if (worker.is_running()) {
      reactor_.watch(
          worker.process_fd(), os::Reactor::For::Read, [this] { may_have_exits_ = true; });
    }
  }
}

// Exits come before the kill at the end of the grace period: a worker that has ended in time must
// not be reported as killed.
void WorkerGroup::take_news() {
  if (may_have_exits_) {
    may_have_exits_ = false;
    take_fork_server_exit();
    if (!fork_server_) {
      take_exits();
    }
  }
  reap_orphans();
  if (kill_at_ && Clock::now() >= *kill_at_) {
    kill();
  }
  end_when_empty();
}

// `sent` is part of the report because only the agent knows whether a death by SIGTERM was its own
// work.
void WorkerGroup::take_exits() {
  for (Worker& worker : workers_) {
    const int fd = worker.process_fd();
    if (const auto status = worker.find_new_exit()) {
      reactor_.forget(fd);
      const ProcessId process = ProcessId::worker(worker.spec().rank);
      statuses_[process] = *status;
      report_(Exited{.attempt = options_.spec.first.attempt,
                     .process = process,
                     .status = *status,
                     .sent = worker.sent()});
    }
  }
}

// Background processes of workers become children of the agent (a subreaper) when their parent
// exits, and would stay zombies until the end of the run. While the fork server runs, the process
// ids of the workers are not known yet, and a worker must not be reaped as an orphan.
void WorkerGroup::reap_orphans() {
  const auto now = Clock::now();
  if (fork_server_ || is_over_ || now < next_reaping_) {
    return;
  }
  next_reaping_ = now + kReapingTime;
  std::vector<int> known;
  for (const Worker& worker : workers_) {
    if (worker.is_running()) {
      known.push_back(worker.pid());
    }
  }
  if (mps_ && mps_->pid()) {
    known.push_back(*mps_->pid());
  }
  os::reap_strangers(known);
}

// The lines come from the program of the user. A line that is malformed, or names a rank of another
// node or one that has a process already, is ignored; a missing worker is then noticed when the
// fork server exits. os::Child accepts a process that is not a child yet.
void WorkerGroup::take_handover() {
  while (os::read_some(handover_.number(), handover_text_, os::kAtomicBytes) ==
         os::ReadResult::Some) {
  }
  for (size_t end = handover_text_.find('\n'); end != std::string::npos;
       end = handover_text_.find('\n')) {
    const std::vector<std::string> words = split(handover_text_.substr(0, end), ' ');
    handover_text_.erase(0, end + 1);
    const bool is_pair = words.size() == 2;
    const int64_t rank = is_pair ? find_integer(words[0]).value_or(-1) : -1;
    const int64_t pid = is_pair ? find_integer(words[1]).value_or(-1) : -1;
    const auto worker = std::find_if(workers_.begin(), workers_.end(), [&](const Worker& one) {
      return rank == one.spec().rank && !one.has_process();
    });
    if (worker != workers_.end() && pid > 0) {
      worker->adopt(os::Child(static_cast<int>(pid)));
    }
  }
}

// The handover is read again after the exit was seen: everything that the fork server wrote is in
// the pipe by then. An exit with code 0 before all workers are handed over is a failure. A stop()
// that arrived meanwhile could not signal workers that were not known yet; they get the signal
// here.
void WorkerGroup::take_fork_server_exit() {
  if (!fork_server_) {
    return;
  }
  take_handover();
  auto status = fork_server_->find_exit();
  if (!status) {
    return;
  }
  take_handover();
  const auto with_process = std::count_if(
      workers_.begin(), workers_.end(), [](const Worker& one) { return one.has_process(); });
  const bool is_complete = with_process == static_cast<std::ptrdiff_t>(workers_.size());
  if (status->is_success() && !is_complete) {
    status->code = static_cast<int>(ExitCode::Bug);
  }
  reactor_.forget(fork_server_->fd());
  reactor_.forget(handover_.number());
  statuses_[fork_server_id()] = *status;
  if (!status->is_success()) {
    report_(Exited{.attempt = options_.spec.first.attempt,
                   .process = fork_server_id(),
                   .status = *status,
                   .sent = is_stopping_ ? SIGTERM : 0});
  }
  fork_server_.reset();
  watch_exits();
  if (is_stopping_) {
    for (Worker& worker : workers_) {
      worker.send(kill_at_ ? SIGTERM : SIGKILL);
    }
  }
}

// A repeated stop sends SIGTERM again but does not extend the grace period.
void WorkerGroup::stop(double grace_seconds, bool sends) {
  if (!is_stopping_) {
    kill_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(grace_seconds));
  }
  is_stopping_ = true;
  for (Worker& worker : workers_) {
    if (sends) {
      worker.send(SIGTERM);
    } else {
      worker.note_sent(SIGTERM);
    }
  }
  if (fork_server_ && sends) {
    fork_server_->signal_group(SIGTERM);
  }
}

// kill_at_ is reset, which also marks for take_fork_server_exit() that late workers get SIGKILL and
// not SIGTERM.
void WorkerGroup::kill() {
  is_stopping_ = true;
  kill_at_.reset();
  for (Worker& worker : workers_) {
    worker.send(SIGKILL);
  }
  if (fork_server_) {
    fork_server_->signal_group(SIGKILL);
  }
}

void WorkerGroup::pass(int signal) {
  for (Worker& worker : workers_) {
    worker.pass(signal);
  }
}

// Ends the attempt when no worker runs: kills the background processes of workers, which may hold
// the pipes open, and reads the output to its end. kDrainTime limits the silence of a pipe that a
// process outside of this tree holds open: each read extends the wait.
void WorkerGroup::end_when_empty() {
  if (is_over_ || workers_.empty() || is_running()) {
    return;
  }
  if (!drain_until_) {
    if (mps_) {
      mps_->stop();
    }
    left_behind_ = os::kill_all_children(kCleanUpTime);
    drain_until_ = Clock::now() + kDrainTime;
  }
  if (has_open_streams() && Clock::now() < *drain_until_) {
    return;
  }
  for (Worker& worker : workers_) {
    reactor_.forget(worker.stream_fd(Stream::Out));
    reactor_.forget(worker.stream_fd(Stream::Err));
    worker.finish_streams(sink_);
  }
  is_over_ = true;
  report_(Stopped{.attempt = options_.spec.first.attempt, .left_behind = left_behind_});
}

// Reaping has no deadline: it happens in any later turn.
std::optional<WorkerGroup::Clock::time_point> WorkerGroup::deadline() const {
  return is_over_ ? std::nullopt : drain_until_ ? drain_until_ : kill_at_;
}

bool WorkerGroup::is_running() const {
  return fork_server_.has_value() ||
         std::any_of(
             workers_.begin(), workers_.end(), [](const Worker& one) { return one.is_running(); });
}

bool WorkerGroup::has_open_streams() const {
  return std::any_of(
      workers_.begin(), workers_.end(), [](const Worker& one) { return one.has_open_streams(); });
}

std::vector<cluster::WatchedWorker> WorkerGroup::watched() const {
  std::vector<cluster::WatchedWorker> running;
  for (const Worker& worker : workers_) {
    if (worker.is_running()) {
      const int rank = worker.spec().rank;
      running.push_back(
          {.rank = rank, .pid = worker.pid(), .visible_gpus = visible_gpus_.at(rank)});
    }
  }
  return running;
}

// The slot of a node is its node rank in the attempt.
ProcessId WorkerGroup::fork_server_id() const {
  return ProcessId::fork_server(options_.spec.first.node_rank);
}

// The leader asks after Stopped, so that the log is complete. For the fork server the log of the
// first worker is used, because it writes to the streams of that worker.
Failure WorkerGroup::explain(ProcessId process) const {
  const bool is_fork_server = !process.is_worker();
  const auto found = std::find_if(workers_.begin(), workers_.end(), [process](const Worker& one) {
    return ProcessId::worker(one.spec().rank) == process;
  });
  const Worker& worker = found == workers_.end() ? workers_.front() : *found;
  Failure failure;
  failure.who = is_fork_server ? fmt::format("the fork server of ranks {}-{}",
                                             workers_.front().spec().rank,
                                             workers_.back().spec().rank)
                               : fmt::format("rank {}", process.number);
  failure.rank = worker.spec().rank;
  failure.local_rank = worker.spec().local_rank;
  failure.node = options_.spec.first.node;
  failure.pid = is_fork_server ? fork_server_pid_ : worker.pid();
  failure.attempt = options_.spec.first.attempt;
  const auto status = statuses_.find(process);
  failure.status = status == statuses_.end() ? os::ExitStatus{} : status->second;
  failure.out_of_memory = cluster::judge_oom(oom_kills_before_, cluster::count_oom_kills());
  failure.note = is_fork_server ? "it exited before all workers were forked and handed over" : "";
  failure.log = worker.log();
  add_last_output(failure,
                  {.error_file = worker.spec().error_file,
                   .log_begin = worker.log_begin(),
                   .maximum = kLastLines});
  return failure;
}

}  // namespace lockstep::supervisor
