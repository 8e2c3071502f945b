// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/leader/run_supervisor.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "common/base/deadline.h"
#include "common/base/text.h"
#include "common/contract/launch_plan.h"
#include "common/os/files.h"
#include "common/os/pipe.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr int kLocal = 0;  // number of the agent of this node
// The interval at which the request file of lockstep cancel is looked for. A file and not a signal:
// the command may run on another machine that shares the run directory.
constexpr milliseconds kHouseKeeping(500);
constexpr milliseconds kStarterTime(3000);

// The path relative to the current directory, if it is below it.
std::string short_name(const fs::path& path) {
  std::error_code ignored;
  const fs::path below = path.lexically_relative(fs::current_path(ignored));
  return below.empty() || *below.begin() == ".." ? path.string() : below.string();
}

std::string describe_slots(const plan::AttemptLayout& layout) {
  const int workers = plan::world_size(layout);
  std::string text = plural(workers, "worker");
  if (layout.slots.size() > 1) {
    constexpr size_t kMaxNamed = 6;
    std::vector<std::string> names;
    for (const plan::NodeSlot& slot : layout.slots) {
      names.push_back(slot.name);
    }
    text += fmt::format(" on {} nodes ({})", layout.slots.size(), name_some(names, kMaxNamed));
  }
  return text;
}

}  // namespace

// signals_ must be constructed before anything that starts a thread (ZeroMQ in ControlServer): a
// thread inherits the signal mask of its creator, and the kernel would deliver a signal to a thread
// that does not block it. The handlers of signals and of the control plane are empty: a turn reads
// both completely, in a fixed order, after the reactor has returned.
RunSupervisor::RunSupervisor(const plan::LaunchPlan& plan,
                             const os::Environment& environment,
                             const Options& options)
    : plan_(plan),
      environment_(environment),
      options_(options),
      directory_(plan.run_directory.value),
      signals_({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}),
      display_(Display::of_this_process(1, environment)),
      keys_(options.keys),
      starter_(reactor_, [this](const std::string& line) { display_.say(line); }),
      leader_(plan, Clock::now(), first_attempt(plan)),
      write_faults_([this](const std::string& text) { display_.say(text); }),
      record_writer_(directory_, write_faults_),
      next_house_keeping_(Clock::now() + kHouseKeeping),
      reporter_(plan, environment, write_faults_) {
  reactor_.watch(signals_.fd(), os::Reactor::For::Read, [] {});
  if (plan.requeue) {
    requeue_.emplace(plan);
  }
  if (keys_) {
    server_ = std::make_unique<ControlServer>(*keys_, options.port);
    watch_control();
  }
  if (options.has_local_agent) {
    local_ = std::make_unique<NodeAgent>(
        NodeAgent::Options{.environment = environment,
                           .only_stores_spec = options.only_stores_spec,
                           .descriptor_limit = options.descriptor_limit},
        reactor_,
        display_,
        [this](const Report& report) { reports_.emplace_back(kLocal, report); });
  }
}

RunSupervisor::~RunSupervisor() = default;

void RunSupervisor::watch_control() {
  for (const int fd : server_->fds()) {
    reactor_.watch(fd, os::Reactor::For::Read, [] {});
  }
}

// The secret key of the server stays in this process: an agent needs the public one only, and an
// agent that is compromised must not be able to impersonate the leader.
RendezvousPoint RunSupervisor::rendezvous_point() const {
  RendezvousPoint point;
  point.endpoints = own_endpoints(server_->port());
  point.keys = *keys_;
  point.keys.server_secret.clear();
  point.directory = fs::current_path().string();
  return point;
}

// The agent of this node takes part like any other, except that its reports and commands do not
// cross the network. Its Join is queued before the first turn, so that a run on one node starts its
// workers without waiting for the reactor.
int RunSupervisor::run() {
  if (local_) {
    Join join = local_->offer(keys_ ? std::optional(probe_secret(*keys_)) : std::nullopt);
    keep_addresses(join, keys_ ? plan_.local_addr.value : "");
    join.node =
        plan_.mode.value == plan::LaunchMode::Local ? std::optional(0) : plan_.rendezvous.node;
    join.workers = plan_.mode.value == plan::LaunchMode::Local ? 0 : own_workers(plan_, join);
    join.sort_key = plan_.rendezvous.rank;
    reports_.emplace_back(kLocal, std::move(join));
  }
  const bool starts_agents =
      plan_.mode.value == plan::LaunchMode::Srun || plan_.mode.value == plan::LaunchMode::Ssh;
  if (starts_agents) {
    starter_.start(plan_, rendezvous_point(), environment_);
  }
  settle();
  write_state();
  while (!is_finished()) {
    turn();
  }
  finish();
  return leader_.exit_code();
}

bool RunSupervisor::is_finished() const {
  return leader_.is_over() && (!local_ || !local_->is_busy()) && reports_.empty();
}

// One turn of the event loop. Signals come first, so that a flood of messages does not delay a
// Ctrl-C.
void RunSupervisor::turn() {
  display_.write_some();
  for (const int fd : display_.waiting_fds()) {
    if (fd >= 0) {
      reactor_.watch(fd, os::Reactor::For::Write, [this, fd] { reactor_.forget(fd); });
    }
  }
  reactor_.turn(time_to_wait());
  take_signals();
  if (local_) {
    local_->take_news();
  }
  take_starters();
  leader_.tick(Clock::now());
  settle();
  display_.write_some();  // before the files below, because a busy disk may block
  keep_house();
  settle();
  write_state();
}

// Handles everything that has arrived. The descriptors of ZeroMQ are edge-triggered, and a send()
// consumes the edge of a message that arrives meanwhile: the reactor would not wake up for it.
// After every send the control plane must therefore be read again until it is empty. The exception
// is has_more_news_: after a full batch, signals and the workers of this node get a turn, and
// time_to_wait() returns 0.
void RunSupervisor::settle() {
  do {
    take_reports();
    act();
  } while (!reports_.empty() || (take_control_news() && !has_more_news_));
}

// duration_cast rounds down; without the additional millisecond the loop would wake up just before
// the deadline and spin until it has passed.
std::optional<milliseconds> RunSupervisor::time_to_wait() const {
  if (has_more_news_ || !reports_.empty()) {
    return milliseconds(0);
  }
  const auto first = earliest({std::optional(next_house_keeping_),
                               leader_.deadline(),
                               local_ ? local_->deadline() : std::nullopt});
  const auto left = duration_cast<milliseconds>(*first - Clock::now()) + milliseconds(1);
  const auto display = display_.time_to_next();
  return std::max(milliseconds(0), display ? std::min(*display, left) : left);
}

// Reports are handled one at a time, with the actions of each before the next: a Stop that a
// failure causes must be sent before the next report is judged. Handling a report of the local
// agent can queue new ones, hence the loop over the queue and not over a copy.
void RunSupervisor::take_reports() {
  while (!reports_.empty()) {
    const auto [agent, report] = std::move(reports_.front());
    reports_.pop_front();
    if (const auto* recorded = std::get_if<Recorded>(&report)) {
      record_writer_.write(*recorded);
      continue;
    }
    if (const auto* unwritten = std::get_if<Unwritten>(&report)) {
      write_faults_.take(unwritten->sentence);
      continue;
    }
    if (const auto* said = std::get_if<Said>(&report)) {
      display_.say(said->text);  // of the local agent; output of its workers needs no message
      continue;
    }
    // The Leader may judge the attempt at any Stopped, and compares its progress with the last one.
    if (std::holds_alternative<Stopped>(report)) {
      leader_.set_progress(contract::find_saved_step(directory_));
    }
    if (std::holds_alternative<Interrupted>(report)) {
      note_cancel();
    }
    leader_.take(agent, report, Clock::now());
    act();
  }
}

void RunSupervisor::act() {
  for (const Action& action : leader_.take_actions()) {
    std::visit([this](const auto& one) { act_on(one); }, action);
  }
}

// A peer that is missing from the map has disconnected. The Leader learns of it through lose(), so
// the command can be dropped.
void RunSupervisor::act_on(const Send& send) {
  if (send.agent == kLocal) {
    local_->execute(send.command);
  } else if (const auto peer = peers_.find(send.agent); peer != peers_.end()) {
    server_->send(peer->second, encode(send.command));
  }
}

void RunSupervisor::act_on(const Say& say) {
  display_.say(say.text);
}

// The box goes first: the file system may be the cause of the failure. flush() shows the last lines
// of the workers above the box. The path in failure.json stays absolute, since its reader may run
// in another directory.
void RunSupervisor::act_on(const Blame& blame) {
  Failure shown = blame.failure;
  shown.log = shown.log.empty() ? shown.log : fs::path(short_name(shown.log));
  display_.flush();
  display_.show(to_box(shown));
  try {
    os::make_directories(directory_.root());  // missing if the run fails before the first start
    os::replace_file(directory_.failure(), to_json(blame.failure));
  } catch (const Error& error) {  // a full disk must not hide the failure
    if (!write_faults_.has_reported()) {
      display_.say(error.what());
    }
  }
}

void RunSupervisor::act_on(const Begin& begin) {
  announce(begin.layout);
  const plan::NodeSpecMaker maker(plan_, begin.layout);
  for (size_t slot = 0; slot < begin.agents.size(); ++slot) {
    act_on(Send{begin.agents[slot], Start{maker.spec_of(static_cast<int>(slot))}});
  }
}

// The run directory is created at the first start of workers, not before: a run that fails while it
// gathers nodes should not leave an empty directory. An old failure.json and an old request to
// cancel in a reused directory would be taken for those of this run. In LaunchMode::Task no process
// is left that could keep the files up to date, so none are written.
void RunSupervisor::announce(const plan::AttemptLayout& layout) {
  display_.set_world_size(plan::world_size(layout));
  if (options_.only_stores_spec) {
    return;
  }
  os::make_directories(directory_.log(layout.attempt, 0).parent_path());
  if (!has_directory_) {
    has_directory_ = true;
    os::remove_tree(directory_.failure());
    os::remove_tree(directory_.cancel());
    os::replace_file(directory_.plan(), contract::to_json(contract::without_secrets(plan_)));
    display_.say(
        fmt::format("{}, run directory {}", describe_slots(layout), short_name(directory_.root())));
    display_.write_some();
  } else {
    display_.say(describe_slots(layout));
  }
}

void RunSupervisor::keep_house() {
  const auto now = Clock::now();
  if (now >= next_house_keeping_) {
    next_house_keeping_ = now + kHouseKeeping;
    take_cancel(now);
  }
}

void RunSupervisor::write_state() {
  if (has_directory_) {
    reporter_.report(leader_, Clock::now());
  }
}

// Called when no worker and no agent is left: `scontrol requeue` makes Slurm end all processes of
// the job, and must not interrupt a worker that still saves a checkpoint.
void RunSupervisor::end_turn() {
  if (!requeue_) {
    return;
  }
  const std::string text = requeue_->end(leader_.exit_code(), leader_.is_cancelled());
  if (!text.empty()) {
    display_.flush();
    display_.say(text);
  }
  if (requeue_->is_requeued() && has_directory_) {
    reporter_.report_requeued();
  }
}

// Shuts down in this order:
// 1. Wait until the agents have disconnected. If the server closed first, a connection with unread
//    bytes would be reset by the kernel, and the Release in transit to the agent would be lost.
// 2. Wait for srun and ssh, which exit after the agents, and kill them after kStarterTime.
// 3. Requeue the job, with signals blocked: Slurm sends SIGTERM to a job that it requeues.
// 4. Write the rest of the output. The reader can take its time; a signal discards the rest.
void RunSupervisor::finish() {
  write_state();
  const auto until = Clock::now() + kStarterTime;
  while (!peers_.empty() && Clock::now() < until) {
    reactor_.turn(milliseconds(50));
    take_control_news();
  }
  if (server_) {
    for (const int fd : server_->fds()) {
      reactor_.forget(fd);
    }
    server_.reset();
  }
  while (!starter_.is_empty() && Clock::now() < until) {
    reactor_.turn(milliseconds(50));
    starter_.take_ended();
  }
  starter_.kill();
  signals_.keep_blocked();
  end_turn();
  display_.flush();
  display_.clear_status();
  display_.write_some();
  while (display_.waiting_bytes() > 0) {
    const std::array<int, 2> fds = display_.waiting_fds();
    std::array<os::Watch, 3> watches = {os::Watch{.fd = signals_.fd()},
                                        os::Watch{.fd = fds[0], .for_write = true},
                                        os::Watch{.fd = fds[1], .for_write = true}};
    os::wait_for(watches, display_.time_to_next());
    while (const auto signal = signals_.find_pending()) {
      if (*signal != SIGCHLD) {
        display_.give_up();
      }
    }
    display_.write_some();
  }
}

}  // namespace lockstep::supervisor
