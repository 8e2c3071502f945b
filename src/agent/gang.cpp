// SPDX-License-Identifier: Apache-2.0
#include "agent/gang.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "agent/name_some.h"
#include "base/text.h"
#include "lockstep/error.h"
#include "os/files.h"
#include "os/pipe.h"
#include "plan/plan_json.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr int kLocal = 0;  // the number of this node's own agent
constexpr milliseconds kHouseKeeping(500);
constexpr milliseconds kStarterTime(3000);
constexpr int kMostShownRejections = 5;
constexpr int kMostNewsAtOnce = 1000;

// As short as it can be typed from here.
std::string short_name(const fs::path& path) {
  std::error_code ignored;
  const fs::path below = path.lexically_relative(fs::current_path(ignored));
  return below.empty() || *below.begin() == ".." ? path.string() : below.string();
}

std::string describe_seats(const plan::Assembly& assembly) {
  const int workers = plan::world_size(assembly);
  std::string text = fmt::format("{} {}", workers, workers == 1 ? "worker" : "workers");
  if (assembly.seats.size() > 1) {
    constexpr size_t kMostNamed = 6;
    std::vector<std::string> names;
    for (const plan::Seat& seat : assembly.seats) {
      names.push_back(seat.name);
    }
    text += fmt::format(" on {} nodes ({})", assembly.seats.size(), name_some(names, kMostNamed));
  }
  return text;
}

}  // namespace

Gang::Gang(const plan::LaunchPlan& plan, const os::Environment& environment, const Options& options)
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
      records_(directory_, write_faults_),
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
                           .only_orders = options.only_orders,
                           .descriptor_limit = options.descriptor_limit},
        reactor_,
        display_,
        [this](const Report& report) { reports_.emplace_back(kLocal, report); });
  }
}

Gang::~Gang() = default;

void Gang::watch_control() {
  for (const int fd : server_->fds()) {
    reactor_.watch(fd, os::Reactor::For::Read, [] {});
  }
}

MeetingPoint Gang::meeting_point() const {
  MeetingPoint point;
  point.endpoints = own_endpoints(server_->port());
  point.keys = *keys_;
  point.keys.server_secret.clear();
  point.directory = fs::current_path().string();
  return point;
}

int Gang::run() {
  if (local_) {
    Join join = local_->offer(keys_ ? std::optional(probe_secret(*keys_)) : std::nullopt);
    keep_addresses(join, keys_ ? plan_.local_addr.value : "");
    join.node = plan_.way.value == plan::Way::Here ? std::optional(0) : plan_.meeting.node;
    join.workers = plan_.way.value == plan::Way::Here ? 0 : own_workers(plan_, join);
    join.order = plan_.meeting.rank;
    reports_.emplace_back(kLocal, std::move(join));
  }
  const bool starts_agents =
      plan_.way.value == plan::Way::Srun || plan_.way.value == plan::Way::Ssh;
  if (starts_agents) {
    starter_.start(plan_, meeting_point(), environment_);
  }
  settle();
  write_state();
  while (!is_finished()) {
    turn();
  }
  finish();
  return leader_.exit_code();
}

bool Gang::is_finished() const {
  return leader_.is_over() && (!local_ || !local_->is_busy()) && reports_.empty();
}

void Gang::turn() {
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
  display_.write_some();  // before files are written: a busy disk may take its time
  keep_house();
  settle();
  write_state();
}

// Sending may swallow the wake-up for what has just come in, so this ends when there is nothing, or
// when signals and our own workers should have their turn.
void Gang::settle() {
  do {
    take_reports();
    act();
  } while (!reports_.empty() || (take_control_news() && !has_more_news_));
}

std::optional<milliseconds> Gang::time_to_wait() const {
  if (has_more_news_ || !reports_.empty()) {
    return milliseconds(0);
  }
  Clock::time_point first = next_house_keeping_;
  const auto earlier = [&first](const std::optional<Clock::time_point>& other) {
    first = other && *other < first ? *other : first;
  };
  earlier(leader_.deadline());
  if (local_) {
    earlier(local_->deadline());
  }
  const auto left = duration_cast<milliseconds>(first - Clock::now()) + milliseconds(1);
  const auto display = display_.time_to_next();
  return std::max(milliseconds(0), display ? std::min(*display, left) : left);
}

void Gang::take_signals() {
  while (const auto arrival = signals_.find_arrival()) {
    if (arrival->number == SIGCHLD) {
      continue;
    }
    const Arrivals::Meaning meaning = arrivals_.read(*arrival, Clock::now());
    if (meaning == Arrivals::Meaning::Told && local_) {
      local_->note_told(arrival->number);
    }
    if (meaning != Arrivals::Meaning::Again) {
      take_signal(arrival->number, meaning != Arrivals::Meaning::Ask);
    }
  }
}

// It stands for the time limit, and is nothing that a worker should die of.
void Gang::take_limit(int signal) {
  if (requeue_->is_limit_near()) {
    return;
  }
  const double grace = requeue_->take_limit();
  leader_.stop_at_limit(
      grace, os::signal_name(signal) + " came: the time limit is near", Clock::now());
}

void Gang::note_cancel() {
  if (requeue_) {
    requeue_->take_cancel(Requeue::Clock::now());
  }
}

void Gang::take_signal(int signal, bool is_slurms) {
  if (requeue_ && signal == plan_.requeue->signal.value) {
    take_limit(signal);
    return;
  }
  const std::string name = os::signal_name(signal);
  switch (signal) {
    case SIGUSR1:
    case SIGUSR2:
      if (is_slurms && local_) {
        local_->obey(Pass{.signal = signal});  // the other nodes have it from Slurm as well
      } else {
        leader_.pass(signal);
      }
      break;
    case SIGCONT:
      leader_.pass(SIGCONT);
      break;
    case SIGTSTP:
      leader_.pass(SIGSTOP);
      break;
    case SIGQUIT:
      note_cancel();
      leader_.stop(SIGQUIT, name + " came", Clock::now());
      leader_.kill(name + ": killing every worker now");
      break;
    default:
      note_cancel();
      leader_.stop(signal, name + " came", Clock::now());
  }
}

bool Gang::take_control_news() {
  int taken = 0;
  for (; server_ && taken < kMostNewsAtOnce; ++taken) {
    const auto news = server_->find_news();
    if (!news) {
      break;
    }
    switch (news->kind) {
      case ControlServer::News::Kind::Message:
        take_message(news->peer, news->text);
        break;
      case ControlServer::News::Kind::Closed:
        lose(news->peer, news->text);
        break;
      case ControlServer::News::Kind::Rejected:
        if (++shown_rejections_ <= kMostShownRejections) {
          display_.say(
              fmt::format("turned away a connection from {}: it did not show the keys of this run",
                          news->text));
        }
        break;
    }
  }
  has_more_news_ = taken == kMostNewsAtOnce;
  return taken > 0;
}

// What it had said before is heard before.
void Gang::lose(const std::string& peer, const std::string& why) {
  const auto found = numbers_.find(peer);
  if (found == numbers_.end()) {
    return;
  }
  const int number = found->second;
  numbers_.erase(found);
  take_reports();
  leader_.lose(number, why, Clock::now());
  act();
  peers_.erase(number);
}

void Gang::take_message(const std::string& peer, const std::string& text) {
  auto found = numbers_.find(peer);
  if (found == numbers_.end()) {
    found = numbers_.emplace(peer, next_number_++).first;
    peers_.emplace(found->second, peer);
  }
  const std::optional<Report> report = find_report(peer, text);
  if (!report) {
    return;
  }
  const auto* said = std::get_if<Said>(&*report);
  if (said == nullptr) {
    reports_.emplace_back(found->second, *report);
    return;
  }
  if (said->rank < 0) {
    display_.say(said->text);
  } else if (said->is_status) {
    display_.take_status(said->rank, said->text);
  } else {
    display_.take_lines(said->rank, said->stream, said->text);
  }
  server_->send(peer, encode(Order(Credit{static_cast<int64_t>(said->text.size())})));
}

// Who does not speak our language is as good as lost.
std::optional<Report> Gang::find_report(const std::string& peer, const std::string& text) {
  try {
    return decode_report(text);
  } catch (const Error& error) {
    lose(peer, fmt::format("it sends what is no message ({})", error.what()));
    server_->send(peer,
                  encode(Order(Release{.code = static_cast<int>(ExitCode::TryAgain),
                                       .text = "the leader does not understand this agent"})));
    return std::nullopt;
  }
}

void Gang::take_starters() {
  for (const Starter::Ended& ended : starter_.take_ended()) {
    if (leader_.phase() != Leader::Phase::Gathering) {
      continue;
    }
    const std::string how =
        fmt::format("{} {}{}{}",
                    ended.what,
                    ended.status.signal != 0 ? "died by " + os::signal_name(ended.status.signal)
                                             : fmt::format("left with code {}", ended.status.code),
                    ended.last_line.empty() ? "" : ": ",
                    ended.last_line);
    if (plan_.way.value == plan::Way::Ssh && starter_.running() >= plan_.min_nodes.value) {
      display_.say(how + "; the others are enough");
    } else {
      leader_.fail(static_cast<int>(ExitCode::Unavailable), "cannot start the agents: " + how);
    }
  }
}

void Gang::take_reports() {
  while (!reports_.empty()) {
    const auto [agent, report] = std::move(reports_.front());
    reports_.pop_front();
    if (const auto* recorded = std::get_if<Recorded>(&report)) {
      records_.write(*recorded);
      continue;
    }
    if (const auto* unwritten = std::get_if<Unwritten>(&report)) {
      write_faults_.take(unwritten->sentence);
      continue;
    }
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

void Gang::act() {
  for (const Action& action : leader_.take_actions()) {
    std::visit([this](const auto& one) { act_on(one); }, action);
  }
}

void Gang::act_on(const Send& send) {
  if (send.agent == kLocal) {
    local_->obey(send.order);
  } else if (const auto peer = peers_.find(send.agent); peer != peers_.end()) {
    server_->send(peer->second, encode(send.order));
  }
}

void Gang::act_on(const Say& say) {
  display_.say(say.text);
}

void Gang::act_on(const Blame& blame) {
  Failure shown = blame.failure;
  shown.log = shown.log.empty() ? shown.log : fs::path(short_name(shown.log));
  display_.flush();
  display_.show(to_box(shown));
  try {
    os::make_directories(directory_.root());  // what fails before the first start finds none
    os::replace_file(directory_.failure(), to_json(blame.failure));
  } catch (const Error& error) {  // a full disk must not hide why the run failed
    if (!write_faults_.has_told()) {
      display_.say(error.what());
    }
  }
}

void Gang::act_on(const Begin& begin) {
  announce(begin.assembly);
  const plan::OrderMaker maker(plan_, begin.assembly);
  for (size_t seat = 0; seat < begin.agents.size(); ++seat) {
    act_on(Send{begin.agents[seat], Start{maker.order_of(static_cast<int>(seat))}});
  }
}

void Gang::announce(const plan::Assembly& assembly) {
  display_.set_world_size(plan::world_size(assembly));
  if (options_.only_orders) {
    return;
  }
  os::make_directories(directory_.log(assembly.attempt, 0).parent_path());
  if (!has_directory_) {
    has_directory_ = true;
    os::remove_tree(directory_.failure());
    os::remove_tree(directory_.cancel());
    os::replace_file(directory_.plan(), plan::to_json(plan_));
    display_.say(fmt::format(
        "{}, run directory {}", describe_seats(assembly), short_name(directory_.root())));
    display_.write_some();
  } else {
    display_.say(describe_seats(assembly));
  }
}

void Gang::keep_house() {
  const auto now = Clock::now();
  if (now >= next_house_keeping_) {
    next_house_keeping_ = now + kHouseKeeping;
    take_cancel(now);
  }
}

void Gang::take_cancel(Clock::time_point now) {
  if (!has_directory_) {
    return;
  }
  if (const auto request = contract::find_cancel(directory_)) {
    os::remove_tree(directory_.cancel());
    note_cancel();
    const std::string why = fmt::format("lockstep cancel of {} came", request->who);
    leader_.stop(SIGTERM, why, now);
    if (request->grace_seconds) {
      kill_time_ = now + duration_cast<Clock::duration>(
                             std::chrono::duration<double>(*request->grace_seconds));
    }
    if (request->is_now) {
      leader_.kill(why + ": killing every worker now");
    }
  }
  if (kill_time_ && now >= *kill_time_ && !leader_.is_over()) {
    kill_time_.reset();
    leader_.kill("the grace of lockstep cancel is over: killing every worker now");
  }
}

void Gang::write_state() {
  if (has_directory_) {
    reporter_.report(leader_, Clock::now());
  }
}

// When nothing runs any more: Slurm then has nothing to end.
void Gang::end_turn() {
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

// Lets the reader of our output take its time; a signal means that nobody wants the rest.
void Gang::finish() {
  write_state();
  const auto until = Clock::now() + kStarterTime;
  // Agents leave first: a connection closed with unread bytes in it would take the last orders
  // along.
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

}  // namespace lockstep::agent
