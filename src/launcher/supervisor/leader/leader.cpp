// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/leader/leader.h"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <utility>

#include "common/base/check.h"
#include "common/base/deadline.h"
#include "common/base/text.h"
#include "common/os/signals.h"
#include "lockstep/error.h"

namespace lockstep::agent {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::seconds;

// The fork server of a node has no rank. In messages (Exited, Explain) it is rank -1, because the
// sender or the receiver implies the node. In the maps of the Leader, which hold the processes of
// all nodes, the fork server of slot s is rank kSeed - s: -1 for slot 0, -2 for slot 1 and so on.
// seat_of_rank() inverts this. Every rank >= 0 is a worker.
constexpr int kSeed = -1;
constexpr int kTryAgain = static_cast<int>(ExitCode::TryAgain);
constexpr int kUsage = static_cast<int>(ExitCode::Usage);
constexpr int kTimedOut = 124;  // the exit code of timeout(1)
constexpr size_t kMostNamed = 8;
constexpr seconds kExplainTime(3);
// Time that an agent needs in addition to the grace period, to send SIGKILL, to reap processes and
// to send the rest of the output.
constexpr seconds kStopTime(15);
// The end of an allocation, or a Ctrl-C that srun forwards, signals all nodes within this time.
constexpr seconds kSameEvent(1);

Leader::Clock::duration to_duration(double time) {
  return duration_cast<Leader::Clock::duration>(duration<double>(time));
}

double seconds_between(Leader::Time from, Leader::Time to) {
  return duration<double>(to - from).count();
}

}  // namespace

Leader::Leader(const plan::LaunchPlan& plan, Time now, int first_attempt)
    : plan_(plan),
      restarts_(plan.max_restarts.value),
      first_attempt_(first_attempt),
      began_(now),
      attempt_began_(now),
      failed_at_(now) {
  assembly_.attempt = first_attempt;
  limit_ = now + to_duration(plan.start_timeout_seconds.value);
  next_reminder_ = now + seconds(5);
}

void Leader::take(int agent, const Report& report, Time now) {
  if (phase_ == Phase::Over) {
    return;
  }
  // Join is the first report of an agent and is sent only once. The handlers may therefore use
  // agents_.at(): a report of an agent that was rejected or lost does not reach them.
  const bool is_known = agents_.contains(agent);
  const bool is_join = std::holds_alternative<Join>(report);
  if (is_known != is_join) {
    std::visit([&](const auto& one) { on(agent, one, now); }, report);
  }
}

// ---- gathering ----

std::string Leader::find_objection(const Join& join) const {
  if (join.protocol != kProtocol) {
    return fmt::format(
        "it uses protocol {}, the leader protocol {}; install the same version on all nodes",
        join.protocol,
        kProtocol);
  }
  const int most = static_cast<int>(plan_.nodes.size());
  if (join.node && (*join.node < 0 || *join.node >= most)) {
    return fmt::format(
        "node rank {} is out of range, the run has {}", *join.node, plural(most, "node"));
  }
  if (join.node && taken_nodes_.contains(*join.node)) {
    return fmt::format("node rank {} is already taken", *join.node);
  }
  if (agents() >= most) {
    return fmt::format("the run already has {}", plural(most, "node"));
  }
  return "";
}

void Leader::on(int agent, const Join& join, Time now) {
  if (const std::string objection = find_objection(join); !objection.empty()) {
    say(fmt::format(
        "rejected {}: {}", join.name.empty() ? "an agent" : "node " + join.name, objection));
    send(agent, Release{.code = kUsage, .text = "cannot join the run: " + objection});
    return;
  }
  if (!join.fault.empty() && phase_ != Phase::Gathering) {
    say(fmt::format("rejected node {}: {}", join.name, join.fault));
    send(agent, Release{.code = join.fault_code, .text = join.fault});
    return;
  }
  Agent& added = agents_[agent];
  added.offer = join;
  added.node = join.node.value_or(-1);
  if (join.node) {
    taken_nodes_.insert(*join.node);
  }
  if (!join.fault.empty()) {
    fail(join.fault_code, fmt::format("on {}: {}", join.name, join.fault));
    return;
  }
  if (phase_ == Phase::Gathering) {
    gather(now);
  } else {
    say(fmt::format("node {} joined; it takes part from the next attempt", join.name));
  }
}

void Leader::gather(Time now) {
  const int least = plan_.min_nodes.value;
  const int most = static_cast<int>(plan_.nodes.size());
  if (agents() >= most) {
    begin_attempt(now);
  } else if (agents() >= least && !last_call_) {
    last_call_ = now + to_duration(plan_.last_call_seconds.value);
  }
}

std::string Leader::describe_missing() const {
  std::vector<std::string> missing;
  std::set<int> here;
  int unnamed = 0;
  for (const auto& [number, agent] : agents_) {
    here.insert(agent.node);
    unnamed += agent.node < 0 ? 1 : 0;
  }
  // An agent without a node of its own fills one of the gaps, and it is not known yet which one.
  for (size_t node = 0; node < plan_.nodes.size(); ++node) {
    if (!here.contains(static_cast<int>(node)) && unnamed-- <= 0) {
      const std::string& name = plan_.nodes[node].name;
      missing.push_back(name.empty() ? fmt::format("node {}", node) : name);
    }
  }
  return name_some(missing, kMostNamed);
}

void Leader::remind(Time now) {
  if (phase_ == Phase::Gathering) {
    say(fmt::format("waiting for {} ({:.0f} s); {} of {} nodes have joined",
                    describe_missing(),
                    seconds_between(attempt_began_, now),
                    agents(),
                    plan_.nodes.size()));
    next_reminder_ = now + seconds(agents() > 0 ? 15 : 10);
  } else {
    next_reminder_.reset();
  }
}

// ---- an attempt ----

int Leader::count_workers(const Agent& agent) const {
  if (agent.offer.workers > 0) {
    return agent.offer.workers;
  }
  const int planned = plan_.nodes.at(static_cast<size_t>(agent.node)).workers.value;
  return planned > 0 ? planned
                     : plan::count_by_rule(plan_.worker_rule, agent.offer.cores, agent.offer.gpus);
}

// Assigns nodes of the plan, slots and ranks. Agents that were started as a certain node keep it.
// The others get the free nodes in the order of Join::order, then of their numbers, and keep them
// in later attempts. A node therefore keeps its ranks in every attempt, unless a node before it is
// lost or joins.
void Leader::take_seats() {
  std::set<int> taken;
  std::vector<std::pair<int, int>> unnamed;
  for (auto& [number, agent] : agents_) {
    if (agent.node >= 0) {
      taken.insert(agent.node);
    } else {
      unnamed.emplace_back(agent.offer.order, number);
    }
  }
  std::sort(unnamed.begin(), unnamed.end());
  int node = 0;
  for (const auto& [order, number] : unnamed) {
    while (taken.contains(node)) {
      ++node;
    }
    taken_nodes_.insert(node);
    agents_.at(number).node = node++;
  }
  std::vector<std::pair<int, int>> by_node;
  for (auto& [number, agent] : agents_) {
    by_node.emplace_back(agent.node, number);
  }
  std::sort(by_node.begin(), by_node.end());
  assembly_.seats.clear();
  first_ranks_.assign(1, 0);
  for (const auto& [planned, number] : by_node) {
    Agent& agent = agents_.at(number);
    agent.seat = static_cast<int>(assembly_.seats.size());
    agent.has_probed = agent.is_prepared = agent.is_stopped = false;
    assembly_.seats.push_back({.node = planned,
                               .name = agent.offer.name,
                               .workers = count_workers(agent),
                               .cores = agent.offer.cores,
                               .address = "127.0.0.1",
                               .interface = "",
                               .ports = {}});
    first_ranks_.push_back(first_ranks_.back() + assembly_.seats.back().workers);
  }
}

void Leader::begin_attempt(Time now) {
  last_call_.reset();
  verdict_ = Verdict();
  statuses_.clear();
  sent_to_.clear();
  lost_.reset();
  std::vector<plan::Seat> former = assembly_.seats;
  take_seats();
  for (const plan::Seat& seat : assembly_.seats) {
    if (seat.workers < 1) {
      fail(kUsage,
           fmt::format("cannot start one worker per GPU on {}: the node has no GPU", seat.name));
      return;
    }
  }
  // The choice of the network holds as long as the same agents have the same nodes. lose() clears
  // seated_before_, so that an agent which replaces a lost one is probed.
  std::vector<std::string> seated;
  for (const auto& [number, agent] : agents_) {
    seated.push_back(fmt::format("{} {}", agent.node, number));
  }
  limit_ = now + to_duration(plan_.start_timeout_seconds.value);
  if (assembly_.seats.size() == 1) {
    prepare();
  } else if (seated == seated_before_) {
    for (size_t seat = 0; seat < former.size(); ++seat) {
      assembly_.seats[seat].address = former[seat].address;
      assembly_.seats[seat].interface = former[seat].interface;
    }
    prepare();
  } else {
    seated_before_ = std::move(seated);
    std::vector<NetworkTrials::Node> nodes(assembly_.seats.size());
    for (const auto& [number, agent] : agents_) {
      nodes.at(static_cast<size_t>(agent.seat)) = {
          .offer = {agent.offer.name, agent.offer.machine, agent.offer.addresses},
          .probe_port = agent.offer.probe_port};
    }
    trials_.begin(std::move(nodes), split(plan_.interfaces.value, ','));
    probe(now);
  }
}

void Leader::probe(Time now) {
  phase_ = Phase::Probing;
  limit_ = now + to_duration(plan_.start_timeout_seconds.value);
  if (!trials_.has_candidates()) {
    choose(now);
    return;
  }
  for (auto& [number, agent] : agents_) {
    if (agent.seat >= 0) {  // the others joined later and wait for the next attempt
      agent.has_probed = false;
      send(number, trials_.order_for(agent.seat));
    }
  }
  wait_for_all(&Agent::has_probed);
}

void Leader::on(int agent, const Probed& probed, Time now) {
  Agent& from = agents_.at(agent);
  if (phase_ != Phase::Probing || from.seat < 0 || !trials_.take(probed)) {
    return;
  }
  if (mark(from, &Agent::has_probed)) {
    choose(now);
  }
}

void Leader::choose(Time now) {
  const plan::NetworkChoice choice = trials_.choose();
  if (!choice.network) {
    if (trials_.begin_again()) {
      probe(now);
      return;
    }
    std::string text = choice.reason;
    for (const std::string& line : choice.details) {
      text += "\n  " + line;
    }
    fail(static_cast<int>(ExitCode::Unavailable), text);
    return;
  }
  for (size_t seat = 0; seat < assembly_.seats.size(); ++seat) {
    const auto& address = trials_.address_of(static_cast<int>(seat), *choice.network);
    assembly_.seats[seat].address = address.text;
    assembly_.seats[seat].interface = address.interface;
  }
  say(choice.reason);
  for (const std::string& line : choice.details) {
    say("  " + line);
  }
  prepare();
}

void Leader::prepare() {
  phase_ = Phase::Preparing;
  for (auto& [number, agent] : agents_) {
    if (agent.seat < 0) {
      continue;
    }
    const bool is_first = agent.seat == 0;
    agent.is_prepared = false;
    Prepare order{.attempt = assembly_.attempt,
                  .ports = assembly_.seats.at(static_cast<size_t>(agent.seat)).workers,
                  .wanted_host = "",
                  .wanted_port = 0};
    if (is_first) {
      order.ports += 2;  // MASTER_PORT and the Horovod rendezvous server
      order.wanted_host = plan_.master_addr.value;
      order.wanted_port = plan_.master_port.value;
    }
    send(number, std::move(order));
  }
  wait_for_all(&Agent::is_prepared);
}

void Leader::on(int agent, const Prepared& prepared, Time now) {
  Agent& from = agents_.at(agent);
  if (phase_ != Phase::Preparing || prepared.attempt != assembly_.attempt || from.seat < 0) {
    return;
  }
  assembly_.seats.at(static_cast<size_t>(from.seat)).ports = prepared.ports;
  if (mark(from, &Agent::is_prepared)) {
    start(now);
  }
}

// The ports of slot 0 are those of its workers, then MASTER_PORT, then Horovod's (see prepare()).
void Leader::start(Time now) {
  const plan::Seat& first = assembly_.seats.front();
  assembly_.master_addr = plan_.master_addr.value.empty() ? first.address : plan_.master_addr.value;
  const auto own = static_cast<size_t>(first.workers);
  assembly_.master_port = plan_.master_port.value != 0 || first.ports.size() <= own
                              ? plan_.master_port.value
                              : first.ports[own];
  phase_ = Phase::Running;
  wait_for_all(&Agent::is_stopped);
  attempt_began_ = failed_at_ = now;
  limit_.reset();
  Begin begin{assembly_, std::vector<int>(assembly_.seats.size())};
  for (const auto& [number, agent] : agents_) {
    if (agent.seat >= 0) {
      begin.agents.at(static_cast<size_t>(agent.seat)) = number;
    }
  }
  actions_.emplace_back(std::move(begin));
}

// Way::Task: the processes replace themselves by the worker program. Nothing is left that
// could report its end, so the run is over for the Leader as soon as all agents have their order.
void Leader::on(int agent, const Started& started, Time /*now*/) {
  if (plan_.way.value != plan::Way::Task || phase_ != Phase::Running ||
      started.attempt != assembly_.attempt) {
    return;
  }
  if (mark(agents_.at(agent), &Agent::is_stopped)) {
    finish(0);
  }
}

void Leader::on(int agent, const Refused& refused, Time /*now*/) {
  if (refused.attempt == assembly_.attempt) {
    const std::string where =
        assembly_.seats.size() > 1 ? fmt::format("on {}: ", agents_.at(agent).offer.name) : "";
    fail(refused.code, where + refused.text);
  }
}

// ---- the end of an attempt ----

void Leader::on(int agent, const Exited& exited, Time now) {
  const Agent& from = agents_.at(agent);
  const bool is_running = phase_ == Phase::Running || phase_ == Phase::Stopping;
  if (!is_running || exited.attempt != assembly_.attempt || from.seat < 0) {
    return;
  }
  const int rank = exited.rank == kSeed ? kSeed - from.seat : exited.rank;
  const auto seat = static_cast<size_t>(from.seat);
  if (exited.rank != kSeed && (rank < first_ranks_.at(seat) || rank >= first_ranks_.at(seat + 1))) {
    return;  // an agent reports its own workers only
  }
  // Exits are recorded in Stopping as well: Verdict may still move the blame to a later exit, and
  // count_stopped() needs them. Only the first failure stops the workers.
  const bool was_over = verdict_.is_over() || lost_;
  statuses_[rank] = exited.status;
  if (exited.sent != 0) {
    sent_to_.insert(rank);
  }
  verdict_.record_exit(rank, exited.status, exited.sent);
  if (!was_over && verdict_.is_over()) {
    failed_at_ = now;
    const Failure failure = failure_without_words(rank);
    stop_workers(fmt::format("{} {}", failure.who, describe_death(failure)),
                 plan_.grace_seconds.value,
                 is_user_stop_);
    limit_ = now + to_duration(plan_.grace_seconds.value) + kStopTime;
  }
}

// `is_asked`: the reason is a request from outside. Slurm may have signalled the workers as well,
// and the agents must not send a second SIGTERM then (NodeAgent::on(Stop)).
void Leader::stop_workers(const std::string& why, double grace_seconds, bool is_asked) {
  phase_ = Phase::Stopping;
  const auto ended = std::count_if(
      statuses_.begin(), statuses_.end(), [](const auto& entry) { return entry.first >= 0; });
  const int running = first_ranks_.back() - static_cast<int>(ended);
  if (!why.empty() && running > 0) {
    say(fmt::format("{}; stopping {} (at most {} s, Ctrl-C kills at once)",
                    why,
                    plural(running, "worker"),
                    grace_seconds));
  }
  send_seated(Stop{.grace_seconds = grace_seconds, .is_asked = is_asked});
}

void Leader::on(int agent, const Stopped& stopped, Time now) {
  Agent& from = agents_.at(agent);
  const bool is_running = phase_ == Phase::Running || phase_ == Phase::Stopping;
  if (!is_running || stopped.attempt != assembly_.attempt || from.seat < 0) {
    return;
  }
  const bool is_last = mark(from, &Agent::is_stopped);
  if (stopped.left_behind > 0) {
    say(fmt::format(
        "killed {} that the workers had left behind{}",
        stopped.left_behind == 1 ? "a process" : fmt::format("{} processes", stopped.left_behind),
        assembly_.seats.size() > 1 ? " on " + from.offer.name : ""));
  }
  if (is_last) {
    end_attempt(now);
  }
}

void Leader::lose(int agent, const std::string& why, Time now) {
  const auto found = agents_.find(agent);
  if (found == agents_.end() || phase_ == Phase::Over) {
    return;
  }
  const Agent gone = found->second;
  // Must be known before the agent is erased, because agent_to_explain() looks it up.
  const bool was_asked = phase_ == Phase::Explaining && agent == agent_to_explain();
  agents_.erase(found);
  taken_nodes_.erase(gone.node);
  if (phase_ == Phase::Gathering || gone.seat < 0) {
    say(fmt::format("node {} left: {}", gone.offer.name, why));
    last_call_ = agents() >= plan_.min_nodes.value ? last_call_ : std::nullopt;
    return;
  }
  seated_before_.clear();
  if (gone.is_stopped) {
    lose_idle(gone, why);
    if (was_asked) {
      end_attempt(now);
    }
    return;
  }
  if (plan_.way.value == plan::Way::Task && phase_ == Phase::Running) {
    fail(kTryAgain, fmt::format("node {} is lost: {}", gone.offer.name, why));
    return;
  }
  blame_loss(gone, why);
  stop_after_loss(gone, why, now);
}

void Leader::stop_after_loss(const Agent& gone, const std::string& why, Time now) {
  if (phase_ == Phase::Running) {
    failed_at_ = now;
    stop_workers(fmt::format("node {} is lost: {}", gone.offer.name, why),
                 plan_.grace_seconds.value,
                 is_user_stop_);
    limit_ = now + to_duration(plan_.grace_seconds.value) + kStopTime;
  } else if (phase_ == Phase::Probing || phase_ == Phase::Preparing) {
    end_attempt(now);  // no worker runs yet
    return;
  }
  // The lost agent may have been the last one without Stopped.
  wait_for_all(&Agent::is_stopped);
  if (waiting_ == 0) {
    end_attempt(now);
  }
}

// The workers on other nodes often notice a lost node before its heartbeat times out, and exit with
// a code. A loss therefore takes the blame from a worker that exited by itself, but not from one
// that was killed by a signal, and not from a request to stop.
void Leader::blame_loss(const Agent& gone, const std::string& why) {
  const auto cause = verdict_.cause();
  if (!lost_ && !is_user_stop_ && (!cause || statuses_.at(*cause).signal == 0)) {
    lost_ = gone.offer.name;
    lost_why_ = why;
  }
}

// The workers of this node have ended, so the attempt does not need its agent any more.
void Leader::lose_idle(const Agent& gone, const std::string& why) {
  if (plan_.way.value != plan::Way::Task) {  // such an agent disconnects to become a worker
    say(fmt::format("node {} is lost, but its workers had ended: {}", gone.offer.name, why));
  }
}

// No worker of the attempt is left. Called a second time, in Explaining, if the agent that was
// asked for the failure report is lost or does not answer in time.
void Leader::end_attempt(Time now) {
  if (is_user_stop_) {
    finish_stopped();
    return;
  }
  if (lost_) {
    judge(failure_of_loss(), now);
    return;
  }
  const auto cause = verdict_.cause();
  if (!cause) {
    finish(0);
    return;
  }
  const int agent = agent_to_explain();
  if (agent < 0 || phase_ == Phase::Explaining) {
    judge(failure_without_words(*cause), now);
    return;
  }
  phase_ = Phase::Explaining;
  limit_ = now + kExplainTime;
  send(agent, Explain{.rank = *cause < 0 ? kSeed : *cause});
}

void Leader::on(int agent, const Explained& explained, Time now) {
  if (phase_ != Phase::Explaining || agent != agent_to_explain()) {
    return;
  }
  Failure failure = failure_without_words(*verdict_.cause());
  try {
    failure = contract::parse_failure_report(explained.failure).failure;
  } catch (const Error& error) {
    say(fmt::format(
        "invalid failure report of {} from {}: {}", failure.who, failure.node, error.what()));
  }
  if (failure.attempt != assembly_.attempt) {
    return;  // the late answer to an Explain of an earlier attempt
  }
  judge(failure, now);
}

void Leader::on(int /*agent*/, const Said& /*said*/, Time /*now*/) {
  LOCKSTEP_CHECK(false);  // the caller shows output and does not pass it on
}

// One scancel, or one Ctrl-C that srun forwards, signals every agent and often the leader itself,
// in any order. All of this must count once, since the second request would kill the workers:
// - a report within kSameEvent of the last request is ignored (here);
// - one signal of the leader within kSameEvent of an agent's report is ignored (in stop(), through
//   told_by_agent_). Only one: the next Ctrl-C that is typed at the leader is a second request.
void Leader::on(int agent, const Interrupted& interrupted, Time now) {
  if (last_stop_ && now < *last_stop_ + kSameEvent) {
    return;
  }
  stop(interrupted.signal,
       fmt::format(
           "{} received {}", agents_.at(agent).offer.name, os::signal_name(interrupted.signal)),
       now);
  told_by_agent_ = now;
}

RestartPolicy::Answer Leader::may_try_again(const Failure& failure) const {
  const bool is_node_lost = lost_.has_value();
  if (is_last_attempt_ || (is_node_lost && !is_elastic())) {
    return {};
  }
  if (agents() < plan_.min_nodes.value) {
    return {false,
            fmt::format("the run needs {}, and {} left",
                        plural(plan_.min_nodes.value, "node"),
                        agents() == 1 ? "1 is" : fmt::format("{} are", agents()))};
  }
  return is_node_lost ? RestartPolicy::Answer{true, ""} : restarts_.ask(failure, progress_);
}

void Leader::judge(const Failure& failure, Time now) {
  Failure shown = failure;
  shown.attempt = assembly_.attempt;
  shown.max_restarts = first_attempt_ + plan_.max_restarts.value;
  shown.seconds = seconds_between(attempt_began_, failed_at_);
  shown.stopped = count_stopped(shown);
  const RestartPolicy::Answer answer = may_try_again(shown);
  actions_.emplace_back(Blame{shown});
  if (!answer.is_again) {
    if (!answer.why_not.empty()) {
      say(fmt::format("not restarting: {}", answer.why_not));
    }
    finish(lost_ ? kTryAgain : shown.status.shell_code());
    return;
  }
  restarts_.remember(shown, progress_);
  if (lost_) {
    try_again(fmt::format("continuing with {}", plural(agents(), "node")), now);
  } else {
    restarts_.count();
    try_again(fmt::format("restart {} of {}", restarts_.used(), plan_.max_restarts.value), now);
  }
}

void Leader::try_again(const std::string& why, Time now) {
  ++assembly_.attempt;
  say(fmt::format("starting attempt {}: {}", assembly_.attempt, why));
  begin_attempt(now);
}

void Leader::finish(int code) {
  exit_code_ = code;
  for (const auto& [number, agent] : agents_) {
    send(number, Release{.code = code, .text = ""});
  }
  phase_ = Phase::Over;
}

// The end of a run that was asked to stop. Workers that exited with 75 saved a checkpoint; this is
// worth more to the caller than the fact that --timeout stopped them.
void Leader::finish_stopped() {
  const int code = verdict_.exit_code();
  finish(is_timed_out_ && code != kTryAgain ? kTimedOut : code);
}

void Leader::fail(int code, const std::string& text) {
  if (phase_ == Phase::Over) {
    return;
  }
  say("error: " + text);
  finish(code);
}

// ---- signals and time ----

void Leader::stop(int signal, const std::string& why, Time now) {
  if (phase_ == Phase::Over) {
    return;
  }
  if (std::exchange(told_by_agent_, std::nullopt).value_or(Time::min()) > now - kSameEvent) {
    return;  // the same event as the report of an agent; see on(Interrupted)
  }
  last_stop_ = now;
  verdict_.record_stop(signal);
  if (phase_ == Phase::Stopping || phase_ == Phase::Explaining) {
    // The failure that stopped the workers stays the verdict, but no attempt may follow.
    if (signal == SIGINT || signal == SIGQUIT) {
      kill(fmt::format("{}: killing all workers now", os::signal_name(signal)));
    }
    is_last_attempt_ = true;
    return;
  }
  stop_running(why, plan_.grace_seconds.value, /*is_asked=*/true, now);
}

void Leader::stop_at_limit(double grace_seconds, const std::string& why, Time now) {
  if (phase_ == Phase::Over) {
    return;
  }
  last_stop_ = now;
  verdict_.record_stop(SIGTERM);
  if (phase_ == Phase::Stopping || phase_ == Phase::Explaining) {
    is_last_attempt_ = true;
    return;
  }
  stop_running(why, grace_seconds, /*is_asked=*/false, now);
}

void Leader::stop_running(const std::string& why, double grace_seconds, bool is_asked, Time now) {
  is_user_stop_ = true;
  if (phase_ != Phase::Running) {
    say(fmt::format("{}; no worker had been started", why));
    finish_stopped();
    return;
  }
  stop_workers(why, grace_seconds, is_asked);
  limit_ = now + to_duration(grace_seconds) + kStopTime;
}

void Leader::kill(const std::string& why) {
  if (phase_ == Phase::Running || phase_ == Phase::Stopping) {
    say(why);
    phase_ = Phase::Stopping;
    is_user_stop_ = is_user_stop_ || !(verdict_.cause() || lost_);
    send_seated(Kill{});
  }
}

void Leader::pass(int signal) {
  if (phase_ == Phase::Running || phase_ == Phase::Stopping) {
    send_seated(Pass{.signal = signal});
  }
}

std::optional<Leader::Time> Leader::deadline() const {
  const bool has_timeout = plan_.timeout_seconds.value > 0 && phase_ <= Phase::Running;
  const Time timeout = began_ + to_duration(plan_.timeout_seconds.value);
  return earliest(
      {limit_, last_call_, next_reminder_, has_timeout ? std::optional(timeout) : std::nullopt});
}

void Leader::tick(Time now) {
  if (phase_ == Phase::Over) {
    return;
  }
  if (phase_ <= Phase::Running && plan_.timeout_seconds.value > 0 &&
      now >= began_ + to_duration(plan_.timeout_seconds.value)) {
    is_timed_out_ = true;
    stop(SIGTERM, fmt::format("--timeout {} s has expired", plan_.timeout_seconds.value), now);
    return;
  }
  if (last_call_ && now >= *last_call_) {
    begin_attempt(now);
    return;
  }
  if (next_reminder_ && now >= *next_reminder_) {
    remind(now);
  }
  if (limit_ && now >= *limit_) {
    limit_.reset();
    take_limit(now);
  }
}

// The deadline of the phase has passed.
void Leader::take_limit(Time now) {
  switch (phase_) {
    case Phase::Gathering:
      if (agents() >= plan_.min_nodes.value) {
        begin_attempt(now);
        break;
      }
      fail(static_cast<int>(ExitCode::Unavailable),
           fmt::format("cannot start the run: {} did not join within {} s",
                       describe_missing(),
                       plan_.start_timeout_seconds.value));
      break;
    case Phase::Probing:
      choose(now);
      break;
    case Phase::Preparing:
      fail(static_cast<int>(ExitCode::Unavailable),
           fmt::format("cannot start the run: {} did not reserve ports within {} s",
                       names_without(&Agent::is_prepared),
                       plan_.start_timeout_seconds.value));
      break;
    case Phase::Stopping:
      say(fmt::format("no answer from {}: its workers might still be running",
                      names_without(&Agent::is_stopped)));
      for (auto& [number, agent] : agents_) {
        agent.is_stopped = true;
      }
      is_last_attempt_ = true;  // workers that still run occupy the slots, GPUs and ports
      end_attempt(now);
      break;
    case Phase::Explaining:
      end_attempt(now);
      break;
    case Phase::Running:
    case Phase::Over:
      break;
  }
}

// ---- helpers ----

std::vector<Action> Leader::take_actions() {
  return std::exchange(actions_, {});
}

Failure Leader::failure_of_loss() const {
  Failure failure;
  failure.who = "node " + *lost_;
  failure.node = *lost_;
  failure.rank = -1;
  failure.status = {.code = kTryAgain, .signal = 0};
  failure.cause = "is lost: " + lost_why_;
  return failure;
}

// The failure as far as the Leader knows it: used for the first line, and if no report arrives.
Failure Leader::failure_without_words(int rank) const {
  Failure failure;
  const int seat = seat_of_rank(rank);
  failure.who = rank < 0 ? fmt::format("the fork server of {}",
                                       assembly_.seats.at(static_cast<size_t>(seat)).name)
                         : fmt::format("rank {}", rank);
  failure.rank = std::max(rank, 0);
  failure.node = assembly_.seats.at(static_cast<size_t>(seat)).name;
  failure.status = statuses_.at(rank);
  failure.attempt = assembly_.attempt;
  return failure;
}

// The workers that ended after a signal of their agent, other than the one that failed.
std::vector<StoppedWorkers> Leader::count_stopped(const Failure& failure) const {
  std::vector<StoppedWorkers> stopped;
  int rank = 0;
  for (const plan::Seat& seat : assembly_.seats) {
    StoppedWorkers here{.node = seat.name, .count = 0};
    for (int local = 0; local < seat.workers; ++local, ++rank) {
      const auto status = statuses_.find(rank);
      const bool was_stopped = status != statuses_.end() && sent_to_.contains(rank);
      here.count += rank != failure.rank && was_stopped ? 1 : 0;
    }
    if (here.count > 0) {
      stopped.push_back(std::move(here));
    }
  }
  return stopped;
}

int Leader::seat_of_rank(int rank) const {
  if (rank < 0) {
    return kSeed - rank;  // inverse of rank = kSeed - seat
  }
  const auto next = std::upper_bound(first_ranks_.begin(), first_ranks_.end(), rank);
  return static_cast<int>(next - first_ranks_.begin()) - 1;
}

std::string Leader::names_without(bool Agent::*flag) const {
  std::vector<std::string> names;
  for (const auto& [number, agent] : agents_) {
    if (agent.seat >= 0 && !(agent.*flag)) {
      names.push_back(agent.offer.name);
    }
  }
  return name_some(names, kMostNamed);
}

// The agent of the failed worker; -1 if no worker failed, or if this agent is lost.
int Leader::agent_to_explain() const {
  const auto cause = verdict_.cause();
  return cause ? agent_of_seat(seat_of_rank(*cause)) : -1;
}

int Leader::agent_of_seat(int seat) const {
  const auto found = std::find_if(agents_.begin(), agents_.end(), [seat](const auto& entry) {
    return entry.second.seat == seat;
  });
  return found == agents_.end() ? -1 : found->first;
}

bool Leader::is_elastic() const {
  return plan_.min_nodes.value < static_cast<int>(plan_.nodes.size());
}

bool Leader::mark(Agent& agent, bool Agent::*flag) {
  if (agent.seat < 0 || agent.*flag) {
    return false;
  }
  agent.*flag = true;
  return --waiting_ == 0;
}

void Leader::wait_for_all(bool Agent::*flag) {
  waiting_ =
      static_cast<int>(std::count_if(agents_.begin(), agents_.end(), [flag](const auto& entry) {
        return entry.second.seat >= 0 && !(entry.second.*flag);
      }));
}

void Leader::send(int agent, Order order) {
  actions_.emplace_back(Send{agent, std::move(order)});
}

void Leader::say(std::string text) {
  actions_.emplace_back(Say{std::move(text)});
}

template <typename Kind>
void Leader::send_seated(const Kind& order) {
  for (const auto& [number, agent] : agents_) {
    if (agent.seat >= 0 && !agent.is_stopped) {
      send(number, order);
    }
  }
}

}  // namespace lockstep::agent
