// SPDX-License-Identifier: Apache-2.0
#include "agent/supervisor.h"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <utility>

#include "base/text.h"
#include "cluster/oom.h"
#include "contract/fork_offer.h"
#include "contract/run_directory.h"
#include "lockstep/error.h"
#include "os/peer_watch.h"
#include "os/pipe.h"

namespace lockstep::agent {
namespace {

using std::chrono::milliseconds;

constexpr int kSeed = -1;  // stands for the seed where a rank is expected
constexpr size_t kMostWaitingBytes = size_t{4} << 20;
constexpr size_t kLastLines = 20;
constexpr milliseconds kCleanUpTime(5000);
constexpr milliseconds kDrainTime(2000);

}  // namespace

Supervisor::Supervisor(const Attempt& attempt, os::SignalFd& signals, Display& display)
    : attempt_(attempt),
      signals_(signals),
      display_(display),
      oom_kills_before_(cluster::find_oom_kills()) {}

Supervisor::~Supervisor() {
  kill_all();
  os::kill_all_children(kCleanUpTime);
}

Outcome Supervisor::run() {
  start_workers();
  while (is_running()) {
    turn(time_to_deadline());
  }
  const int left_behind = os::kill_all_children(kCleanUpTime);
  if (left_behind > 0) {
    announce(
        fmt::format("killed {} that the workers had left behind",
                    left_behind == 1 ? "a process" : fmt::format("{} processes", left_behind)));
  }
  drain();
  Outcome outcome{.exit_code = verdict_.exit_code(), .failure = std::nullopt};
  if (const auto cause = verdict_.cause()) {
    outcome.failure = make_failure(*cause);
  }
  return outcome;
}

void Supervisor::start_workers() {
  const contract::RunDirectory run(attempt_.plan.run_directory.value);
  const int count = attempt_.plan.nodes.at(static_cast<size_t>(attempt_.node)).workers.value;
  for (int local_rank = 0; local_rank < count; ++local_rank) {
    const auto place = plan::place_of(attempt_.plan, attempt_.node, local_rank, attempt_.number);
    workers_.emplace_back(place, run.log(attempt_.number, place.rank));
  }
  if (attempt_.by_seed) {
    start_seed();
    return;
  }
  for (Worker& worker : workers_) {
    worker.adopt(os::start({.executable = attempt_.executable,
                            .arguments = attempt_.plan.command,
                            .environment = plan::worker_environment(
                                attempt_.plan, worker.place(), attempt_.environment),
                            .stdout_fd = worker.stdout_fd(),
                            .stderr_fd = worker.stderr_fd(),
                            .inherited = {},
                            .directory = "",
                            .has_own_group = true,
                            .dies_with_parent = true}));
    worker.close_inner_ends();
  }
}

// The seed speaks through the streams of its first worker, so that what the loader says of a
// missing library lands in a log and in the box.
void Supervisor::start_seed() {
  os::Pipe handover = os::make_pipe();
  os::set_nonblocking(handover.out.number());
  contract::ForkOffer offer{.agent_pid = os::process_id(), .workers = {}};
  std::vector<int> inherited = {handover.in.number()};
  os::Environment seeds_own =
      plan::worker_environment(attempt_.plan, workers_.front().place(), attempt_.environment);
  for (const auto& [name, value] : contract::to_environment(workers_.front().place())) {
    seeds_own.erase(name);
  }
  for (const Worker& worker : workers_) {
    offer.workers.push_back({.rank = worker.place().rank,
                             .stdout_fd = worker.stdout_fd(),
                             .stderr_fd = worker.stderr_fd(),
                             .variables = contract::to_environment(worker.place())});
    inherited.insert(inherited.end(), {worker.stdout_fd(), worker.stderr_fd()});
  }
  const os::Fd offer_file = os::make_memory_file(contract::to_json(offer));
  inherited.push_back(offer_file.number());
  seeds_own.insert_or_assign(std::string(contract::kForkOffer),
                             fmt::format("{},{}", offer_file.number(), handover.in.number()));
  seed_.emplace(os::start({.executable = attempt_.executable,
                           .arguments = attempt_.plan.command,
                           .environment = seeds_own,
                           .stdout_fd = workers_.front().stdout_fd(),
                           .stderr_fd = workers_.front().stderr_fd(),
                           .inherited = std::move(inherited),
                           .directory = "",
                           .has_own_group = true,
                           .dies_with_parent = true}));
  seed_pid_ = seed_->pid();
  handover_ = std::move(handover.out);
  for (Worker& worker : workers_) {
    worker.close_inner_ends();
  }
}

bool Supervisor::turn(std::optional<milliseconds> timeout) {
  std::vector<os::Watch> watches = {{.fd = signals_.fd()},
                                    {.fd = display_.waiting_fd(), .for_write = true},
                                    {.fd = seed_ ? seed_->fd() : -1},
                                    {.fd = seed_ ? handover_.number() : -1}};
  const size_t others = watches.size();
  const bool may_listen = display_.waiting_bytes() < kMostWaitingBytes;
  for (const Worker& worker : workers_) {
    watches.push_back({.fd = may_listen ? worker.stream_fd(0) : -1});
    watches.push_back({.fd = may_listen ? worker.stream_fd(1) : -1});
    // Until the seed has left, its children are not ours to wait for.
    watches.push_back({.fd = !seed_ && worker.is_running() ? worker.process_fd() : -1});
  }
  os::wait_for(watches, timeout);

  take_signals();
  const bool is_news = take_output(std::span(watches).subspan(others));
  display_.write_some();
  take_exits();
  if (deadline_ && Clock::now() >= *deadline_) {
    kill_all();
  }
  return is_news;
}

// Three watches for each worker: stdout, stderr, the process.
bool Supervisor::take_output(std::span<const os::Watch> watches) {
  bool is_news = false;
  for (size_t i = 0; i < workers_.size(); ++i) {
    for (const size_t stream : {size_t{0}, size_t{1}}) {
      if (watches[3 * i + stream].is_ready) {
        workers_[i].read(stream, prefix_of(workers_[i]), display_);
        is_news = true;
      }
    }
  }
  return is_news;
}

void Supervisor::take_signals() {
  while (const auto signal = signals_.find_pending()) {
    if (*signal == SIGCHLD) {
      continue;
    }
    if (!is_running()) {
      display_.give_up();  // only the rest of the output is left, and nobody wants it
      continue;
    }
    const bool is_stopping = deadline_.has_value();
    verdict_.record_stop(*signal);
    if (*signal == SIGQUIT || (*signal == SIGINT && is_stopping)) {
      announce(fmt::format("{}: killing every worker now", os::signal_name(*signal)));
      kill_all();
      display_.write_some();
    } else if (!is_stopping) {
      stop_all(fmt::format("{} came", os::signal_name(*signal)));
    }
  }
}

void Supervisor::take_exits() {
  take_seed_exit();
  if (seed_) {
    return;
  }
  const bool was_over = verdict_.is_over();
  for (Worker& worker : workers_) {
    if (const auto status = worker.find_new_exit()) {
      statuses_[worker.place().rank] = *status;
      verdict_.record_exit(worker.place().rank, *status, worker.sent());
    }
  }
  std::vector<int> known;
  for (const Worker& worker : workers_) {
    if (worker.is_running()) {
      known.push_back(worker.pid());
    }
  }
  os::reap_strangers(known);
  if (!was_over && verdict_.is_over()) {
    const Failure failure = make_failure(*verdict_.cause());
    stop_all(fmt::format("{} {}", failure.who, describe_death(failure)));
  }
}

void Supervisor::take_handover() {
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
      return rank == one.place().rank && !one.has_process();
    });
    if (worker != workers_.end() && pid > 0) {
      worker->adopt(os::Child(static_cast<int>(pid)));
    }
  }
}

void Supervisor::take_seed_exit() {
  if (!seed_) {
    return;
  }
  take_handover();
  auto status = seed_->find_exit();
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
  statuses_[kSeed] = *status;
  verdict_.record_exit(kSeed, *status, deadline_ ? SIGTERM : 0);
  seed_.reset();
  if (!deadline_ && verdict_.is_over()) {
    const Failure failure = make_failure(kSeed);
    stop_all(fmt::format("{} {}", failure.who, describe_death(failure)));
  } else if (deadline_) {
    stop_all("");
  }
}

// Reads what the dead have said to its end, unless a stranger holds on to a pipe, and lets the
// reader of our own output take its time.
void Supervisor::drain() {
  auto give_up_at = Clock::now() + kDrainTime;
  while (has_open_streams() && Clock::now() < give_up_at) {
    if (turn(milliseconds(100)) || display_.waiting_bytes() >= kMostWaitingBytes) {
      give_up_at = Clock::now() + kDrainTime;
    }
  }
  for (Worker& worker : workers_) {
    worker.finish_streams(prefix_of(worker), display_);
  }
  display_.clear_status();
}

void Supervisor::stop_all(const std::string& why) {
  const auto running = std::count_if(
      workers_.begin(), workers_.end(), [](const Worker& one) { return one.is_running(); });
  const double grace = attempt_.plan.grace_seconds.value;
  if (!deadline_) {
    deadline_ = Clock::now() +
                std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(grace));
  }
  if (!why.empty() && running > 0) {
    announce(fmt::format("{}; stopping {} {} (at most {} s, Ctrl-C kills at once)",
                         why,
                         running,
                         running == 1 ? "worker" : "workers",
                         grace));
  }
  for (Worker& worker : workers_) {
    worker.send(SIGTERM);
  }
  if (seed_) {
    seed_->signal_group(SIGTERM);
  }
}

void Supervisor::kill_all() {
  for (Worker& worker : workers_) {
    worker.send(SIGKILL);
  }
  if (seed_) {
    seed_->signal_group(SIGKILL);
  }
  deadline_ = Clock::time_point::max();
}

void Supervisor::announce(const std::string& text) {
  display_.add_lines(Display::Stream::Err, fmt::format("lockstep: {}\n", text));
}

bool Supervisor::is_running() const {
  return seed_.has_value() || std::any_of(workers_.begin(), workers_.end(), [](const Worker& one) {
           return one.is_running();
         });
}

bool Supervisor::has_open_streams() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker& one) {
    return one.stream_fd(0) >= 0 || one.stream_fd(1) >= 0;
  });
}

std::optional<milliseconds> Supervisor::time_to_deadline() const {
  if (!deadline_ || *deadline_ == Clock::time_point::max()) {
    return std::nullopt;
  }
  return std::max(std::chrono::ceil<milliseconds>(*deadline_ - Clock::now()), milliseconds(0));
}

std::string Supervisor::prefix_of(const Worker& worker) const {
  return worker.place().world_size == 1 ? "" : fmt::format("[rank {}] ", worker.place().rank);
}

Failure Supervisor::make_failure(int rank) const {
  const bool is_seed = rank == kSeed;
  const auto found = std::find_if(workers_.begin(), workers_.end(), [rank](const Worker& one) {
    return one.place().rank == rank;
  });
  const Worker& worker = found == workers_.end() ? workers_.front() : *found;
  const auto oom_kills = cluster::find_oom_kills();
  const contract::RunDirectory run(attempt_.plan.run_directory.value);
  Failure failure;
  failure.who = is_seed ? fmt::format("the seed of ranks {}-{}",
                                      workers_.front().place().rank,
                                      workers_.back().place().rank)
                        : fmt::format("rank {}", rank);
  failure.rank = worker.place().rank;
  failure.local_rank = worker.place().local_rank;
  failure.node = attempt_.plan.nodes.at(static_cast<size_t>(attempt_.node)).name;
  failure.pid = is_seed ? seed_pid_ : worker.pid();
  failure.attempt = attempt_.number;
  failure.status = statuses_.at(rank);
  failure.may_be_out_of_memory = !oom_kills || oom_kills != oom_kills_before_;
  failure.note = is_seed ? "it left before every worker was forked and handed over" : "";
  failure.log = run.log(attempt_.number, failure.rank);
  failure.last_lines = read_last_lines(failure.log, kLastLines);
  return failure;
}

}  // namespace lockstep::agent
