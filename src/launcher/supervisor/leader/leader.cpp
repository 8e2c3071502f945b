// SPDX-License-Identifier: Apache-2.0
//
// Reading guide. Three kinds of events end an attempt, and all of them meet in end_attempt():
//
//   worker fails   on(Exited) ------------------+
//   node is lost   lose(), stop_after_loss() ---+--> stop_workers() --> every slot Stopped --+
//   request        stop(), stop_at_limit() -----+                                            |
//                                                                                            v
//   begin_attempt() <-- try_again() <-- judge() <-- [Explaining] <-- failure? <-- end_attempt()
//                                         |                             | no
//                                         +----------> finish() <-------+
//
// The Leader calls nothing outside: its actions are executed after the call has returned, and the
// next report can follow at once. begin_attempt(), end_attempt(), fail() and finish() change the
// phase, so code after a call of them must not rely on it.
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

namespace lockstep::supervisor {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::seconds;

constexpr int kTryAgain = static_cast<int>(ExitCode::TryAgain);
constexpr int kUsage = static_cast<int>(ExitCode::Usage);
constexpr int kTimedOut = 124;  // the exit code of timeout(1)
constexpr seconds kExplainTime(3);
// Maximum time between the exit of a worker that lost a peer and that of the peer. Both happen at
// once; a process with a CUDA context takes a second to exit.
constexpr seconds kCauseTime(2);
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
      roster_(plan),
      outcome_(now),
      restarts_(plan.max_restarts.value),
      first_attempt_(first_attempt),
      began_(now) {
  layout_.attempt = first_attempt;
  deadlines_.phase = now + to_duration(plan.start_timeout_seconds.value);
  deadlines_.reminder = now + seconds(5);
}

void Leader::take(int agent, const Report& report, Time now) {
  if (phase_ == Phase::Over) {
    return;
  }
  // Join is the first report of an agent and is sent only once. The handlers may therefore use
  // roster_.at(): a report of an agent that was rejected or lost does not reach them.
  const bool is_known = roster_.contains(agent);
  const bool is_join = std::holds_alternative<Join>(report);
  if (is_known != is_join) {
    std::visit([&](const auto& one) { on(agent, one, now); }, report);
  }
}

// ---- gathering ----

// The agent chooses neither its slot nor its rank. It offers its node, and learns its place from
// the Start message.
//
// A node that cannot run the program (`fault`: for example, the working directory does not exist
// there) ends the run while the nodes gather, because the same start would fail again. Later it is
// only a candidate for the next attempt, and is rejected without harm to the running one.
void Leader::on(int agent, const Join& join, Time now) {
  if (const std::string objection = roster_.find_objection(join); !objection.empty()) {
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
  roster_.add(agent, join);
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

// Without an elastic range, min_nodes equals the number of nodes and the second branch is never
// taken. With MIN:MAX, the last call starts when MIN nodes are here and is not extended by further
// nodes, so that the start has an upper bound.
void Leader::gather(Time now) {
  const int minimum = plan_.min_nodes.value;
  const int maximum = static_cast<int>(plan_.nodes.size());
  if (agents() >= maximum) {
    begin_attempt(now);
  } else if (agents() >= minimum && !deadlines_.last_call) {
    deadlines_.last_call = now + to_duration(plan_.last_call_seconds.value);
  }
}

// Shows progress to a user who waits for slow nodes. The first reminder comes after 5 s (see the
// constructor), so that a normal start prints nothing.
void Leader::remind(Time now) {
  if (phase_ == Phase::Gathering) {
    say(fmt::format("waiting for {} ({:.0f} s); {} of {} nodes have joined",
                    roster_.describe_missing(),
                    seconds_between(outcome_.began(), now),
                    agents(),
                    plan_.nodes.size()));
    deadlines_.reminder = now + seconds(agents() > 0 ? 15 : 10);
  } else {
    deadlines_.reminder.reset();
  }
}

// ---- an attempt ----

// Assigns the slots and takes the shortest way to Preparing. Probing is skipped if the nodes and
// their agents are the same as in the attempt before and no node was lost meanwhile: a restart
// after a crash of the program then costs no probe round.
void Leader::begin_attempt(Time now) {
  deadlines_.last_call.reset();
  outcome_.clear();
  const std::vector<plan::NodeSlot> former = std::exchange(layout_.slots, roster_.assign_slots());
  for (const plan::NodeSlot& slot : layout_.slots) {
    if (slot.workers < 1) {
      fail(kUsage,
           fmt::format("cannot start one worker per GPU on {}: the node has no GPU", slot.name));
      return;
    }
  }
  deadlines_.phase = now + to_duration(plan_.start_timeout_seconds.value);
  if (layout_.slots.size() == 1) {
    prepare();
  } else if (roster_.are_members_known()) {  // the choice of the network still holds
    for (size_t slot = 0; slot < former.size(); ++slot) {
      layout_.slots[slot].address = former[slot].address;
      layout_.slots[slot].interface = former[slot].interface;
    }
    prepare();
  } else {
    roster_.remember_members();
    std::vector<NetworkTrials::Participant> nodes(layout_.slots.size());
    for (const auto& [number, agent] : roster_.agents()) {
      nodes.at(static_cast<size_t>(agent.slot)) = {
          .offer = {agent.offer.name, agent.offer.machine, agent.offer.addresses},
          .probe_port = agent.offer.probe_port};
    }
    trials_.begin(std::move(nodes), split(plan_.interfaces.value, ','));
    probe(now);
  }
}

// Without a candidate network, choose() produces the error message: it knows the offers of all
// nodes.
void Leader::probe(Time now) {
  phase_ = Phase::Probing;
  deadlines_.phase = now + to_duration(plan_.start_timeout_seconds.value);
  if (!trials_.has_candidates()) {
    choose(now);
    return;
  }
  roster_.expect(&Agent::has_probed);
  for (const auto& [number, agent] : roster_.agents()) {
    if (agent.slot >= 0) {  // the others joined later and wait for the next attempt
      send(number, trials_.probe_for(agent.slot));
    }
  }
}

void Leader::on(int agent, const Probed& probed, Time now) {
  Agent& from = roster_.at(agent);
  if (phase_ != Phase::Probing || from.slot < 0 || !trials_.take(probed)) {
    return;
  }
  if (roster_.mark(from, &Agent::has_probed)) {
    choose(now);
  }
}

// Called when all agents have answered, and also when the deadline of the phase has passed: pairs
// without a result then count as failed. The first round has a short timeout, which is right on a
// quiet network; NetworkTrials grants one slower round before the run fails.
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
  for (size_t slot = 0; slot < layout_.slots.size(); ++slot) {
    const auto& address = trials_.address_of(static_cast<int>(slot), *choice.network);
    layout_.slots[slot].address = address.text;
    layout_.slots[slot].interface = address.interface;
  }
  say(choice.reason);
  for (const std::string& line : choice.details) {
    say("  " + line);
  }
  prepare();
}

// Ports are reserved in every attempt, also in one with the same nodes: the old ones can be in
// TIME_WAIT, or taken by another program meanwhile. The agents of all slots reserve at the same
// time; slot 0 reserves two more.
void Leader::prepare() {
  phase_ = Phase::Preparing;
  roster_.expect(&Agent::is_prepared);
  for (const auto& [number, agent] : roster_.agents()) {
    if (agent.slot < 0) {
      continue;
    }
    const bool is_first = agent.slot == 0;
    Prepare command{.attempt = layout_.attempt,
                    .ports = layout_.slots.at(static_cast<size_t>(agent.slot)).workers,
                    .wanted_host = "",
                    .wanted_port = 0};
    if (is_first) {
      command.ports += 2;  // MASTER_PORT and the Horovod rendezvous server
      command.wanted_host = plan_.master_addr.value;
      command.wanted_port = plan_.master_port.value;
    }
    send(number, std::move(command));
  }
}

// Only the last Prepared starts the workers. Every spec contains ports of all nodes (MASTER_PORT,
// TF_CONFIG), so no worker can start earlier.
void Leader::on(int agent, const Prepared& prepared, Time now) {
  Agent& from = roster_.at(agent);
  if (phase_ != Phase::Preparing || prepared.attempt != layout_.attempt || from.slot < 0) {
    return;
  }
  layout_.slots.at(static_cast<size_t>(from.slot)).ports = prepared.ports;
  if (roster_.mark(from, &Agent::is_prepared)) {
    start(now);
  }
}

// The ports of slot 0 are those of its workers, then MASTER_PORT, then Horovod's (see prepare()).
void Leader::start(Time now) {
  const plan::NodeSlot& first = layout_.slots.front();
  layout_.master_addr = plan_.master_addr.value.empty() ? first.address : plan_.master_addr.value;
  const auto own = static_cast<size_t>(first.workers);
  layout_.master_port = plan_.master_port.value != 0 || first.ports.size() <= own
                            ? plan_.master_port.value
                            : first.ports[own];
  phase_ = Phase::Running;
  roster_.wait_for_all(&Agent::is_stopped);
  outcome_.start(now);
  deadlines_.phase.reset();
  Begin begin{layout_, std::vector<int>(layout_.slots.size())};
  for (const auto& [number, agent] : roster_.agents()) {
    if (agent.slot >= 0) {
      begin.agents.at(static_cast<size_t>(agent.slot)) = number;
    }
  }
  actions_.emplace_back(std::move(begin));
}

// LaunchMode::Task: the processes replace themselves by the worker program. Nothing is left that
// could report its end, so the run is over for the Leader as soon as all agents have their spec.
void Leader::on(int agent, const Started& started, Time /*now*/) {
  if (plan_.mode.value != plan::LaunchMode::Task || phase_ != Phase::Running ||
      started.attempt != layout_.attempt) {
    return;
  }
  if (roster_.mark(roster_.at(agent), &Agent::is_stopped)) {
    finish(0);
  }
}

// A refusal is not a failed worker and is never retried: the program does not exist, is not
// executable, or the requested port is taken. The agents of the other nodes may have started their
// workers already; Release, which finish() sends to all of them, kills these.
void Leader::on(int agent, const Refused& refused, Time /*now*/) {
  if (refused.attempt == layout_.attempt) {
    const std::string where =
        layout_.slots.size() > 1 ? fmt::format("on {}: ", roster_.at(agent).offer.name) : "";
    fail(refused.code, where + refused.text);
  }
}

// ---- the end of an attempt ----

void Leader::on(int agent, const Exited& exited, Time now) {
  const Agent& from = roster_.at(agent);
  const bool is_running = phase_ == Phase::Running || phase_ == Phase::Stopping;
  if (!is_running || exited.attempt != layout_.attempt || from.slot < 0) {
    return;
  }
  const ProcessId process = exited.process;
  if (!roster_.has_process(process) || roster_.slot_of(process) != from.slot) {
    return;  // an agent reports its own processes only
  }
  // Exits are recorded in Stopping as well: Verdict may still move the blame to a later exit, and
  // count_stopped() needs them. Only the first failure stops the workers.
  const bool was_over = outcome_.is_over();
  outcome_.record_exit(process, exited.status, exited.sent);
  if (!was_over && outcome_.is_over()) {
    outcome_.set_failed_at(now);
    deadlines_.cause = now + kCauseTime;
  }
  if (deadlines_.cause && !outcome_.may_have_another_cause()) {
    stop_after_failure(now);
  }
}

// The message names the cause that is known now. Nothing is left to stop if all workers have ended.
void Leader::stop_after_failure(Time now) {
  const Failure failure = failure_without_report(*outcome_.cause());
  stop_workers(fmt::format("{} {}", failure.who, describe_death(failure)),
               plan_.grace_seconds.value,
               stop_.is_requested);
  deadlines_.phase = now + to_duration(plan_.grace_seconds.value) + kStopTime;
}

// `is_asked`: the reason is a request from outside. Slurm may have signalled the workers as well,
// and the agents must not send a second SIGTERM then (NodeAgent::on(Stop)).
void Leader::stop_workers(const std::string& why, double grace_seconds, bool is_asked) {
  phase_ = Phase::Stopping;
  deadlines_.cause.reset();
  const int running = roster_.world_size() - outcome_.ended_workers();
  if (!why.empty() && running > 0) {
    say(fmt::format("{}; stopping {} (at most {} s, Ctrl-C kills at once)",
                    why,
                    plural(running, "worker"),
                    grace_seconds));
  }
  send_to_slots(Stop{.grace_seconds = grace_seconds, .is_asked = is_asked});
}

void Leader::on(int agent, const Stopped& stopped, Time now) {
  Agent& from = roster_.at(agent);
  const bool is_running = phase_ == Phase::Running || phase_ == Phase::Stopping;
  if (!is_running || stopped.attempt != layout_.attempt || from.slot < 0) {
    return;
  }
  const bool is_last = roster_.mark(from, &Agent::is_stopped);
  if (stopped.left_behind > 0) {
    say(fmt::format(
        "killed {} that the workers had left behind{}",
        stopped.left_behind == 1 ? "a process" : fmt::format("{} processes", stopped.left_behind),
        layout_.slots.size() > 1 ? " on " + from.offer.name : ""));
  }
  if (is_last) {
    end_attempt(now);
  }
}

// The effect depends on what the agent was needed for:
//
//   Gathering, or no slot        nothing: another node can still take its place
//   its workers had ended        nothing, unless it was asked for the failure report
//   LaunchMode::Task, Running    the run fails: other processes might have become workers already
//   otherwise                    the attempt ends; an elastic run continues with the other nodes
//
// A loss after a request to stop is not recorded: the end of an allocation takes nodes away in any
// order, and the run must then still report the request, not the nodes.
void Leader::lose(int agent, const std::string& why, Time now) {
  if (!roster_.contains(agent) || phase_ == Phase::Over) {
    return;
  }
  // Must be known before the agent is removed, because find_agent_to_explain() looks it up.
  const bool was_asked = phase_ == Phase::Explaining && agent == find_agent_to_explain();
  const Agent gone = roster_.remove(agent);
  if (phase_ == Phase::Gathering || gone.slot < 0) {
    say(fmt::format("node {} left: {}", gone.offer.name, why));
    deadlines_.last_call = agents() >= plan_.min_nodes.value ? deadlines_.last_call : std::nullopt;
    return;
  }
  roster_.forget_members();
  if (gone.is_stopped) {
    lose_idle(gone, why);
    if (was_asked) {
      end_attempt(now);
    }
    return;
  }
  if (plan_.mode.value == plan::LaunchMode::Task && phase_ == Phase::Running) {
    fail(kTryAgain, fmt::format("node {} is lost: {}", gone.offer.name, why));
    return;
  }
  if (!stop_.is_requested) {
    outcome_.record_loss(gone.offer.name, why);
  }
  stop_after_loss(gone, why, now);
}

// In Stopping the loss changes nothing but the number of agents to wait for.
void Leader::stop_after_loss(const Agent& gone, const std::string& why, Time now) {
  if (phase_ == Phase::Running) {
    outcome_.set_failed_at(now);
    stop_workers(fmt::format("node {} is lost: {}", gone.offer.name, why),
                 plan_.grace_seconds.value,
                 stop_.is_requested);
    deadlines_.phase = now + to_duration(plan_.grace_seconds.value) + kStopTime;
  } else if (phase_ == Phase::Probing || phase_ == Phase::Preparing) {
    end_attempt(now);  // no worker runs yet
    return;
  }
  // The lost agent may have been the last one without Stopped.
  roster_.wait_for_all(&Agent::is_stopped);
  if (roster_.waiting() == 0) {
    end_attempt(now);
  }
}

// The workers of this node have ended, so the attempt does not need its agent any more.
void Leader::lose_idle(const Agent& gone, const std::string& why) {
  if (plan_.mode.value != plan::LaunchMode::Task) {  // such an agent disconnects to become a worker
    say(fmt::format("node {} is lost, but its workers had ended: {}", gone.offer.name, why));
  }
}

// No worker of the attempt is left, so no exit can be waited for. Called a second time, in
// Explaining, if the agent that was asked for the failure report is lost or does not answer in
// time.
void Leader::end_attempt(Time now) {
  deadlines_.cause.reset();
  if (stop_.is_requested) {
    finish_stopped();
    return;
  }
  if (outcome_.is_node_lost()) {
    judge(outcome_.failure_of_loss(), now);
    return;
  }
  const auto cause = outcome_.cause();
  if (!cause) {
    finish(0);
    return;
  }
  const auto agent = find_agent_to_explain();
  if (!agent || phase_ == Phase::Explaining) {
    judge(failure_without_report(*cause), now);
    return;
  }
  phase_ = Phase::Explaining;
  deadlines_.phase = now + kExplainTime;
  send(*agent, Explain{.process = *cause});
}

// The report is data from another machine. If it cannot be parsed, the verdict uses what the leader
// knows itself.
void Leader::on(int agent, const Explained& explained, Time now) {
  if (phase_ != Phase::Explaining || agent != find_agent_to_explain()) {
    return;
  }
  Failure failure = failure_without_report(*outcome_.cause());
  try {
    failure = contract::parse_failure_report(explained.failure).failure;
  } catch (const Error& error) {
    say(fmt::format(
        "invalid failure report of {} from {}: {}", failure.who, failure.node, error.what()));
  }
  if (failure.attempt != layout_.attempt) {
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
//   stop_.reported_by_agent). Only one: the next Ctrl-C that is typed at the leader is a second
//   request.
void Leader::on(int agent, const Interrupted& interrupted, Time now) {
  if (stop_.last && now < *stop_.last + kSameEvent) {
    return;
  }
  stop(interrupted.signal,
       fmt::format(
           "{} received {}", roster_.at(agent).offer.name, os::signal_name(interrupted.signal)),
       now);
  stop_.reported_by_agent = now;
}

// The loss of a node in an elastic run is not a fault of the program: it needs no --max-restarts,
// but enough nodes. Everything else is a matter of RestartPolicy.
RestartPolicy::Answer Leader::may_try_again(const Failure& failure) const {
  const bool is_node_lost = outcome_.is_node_lost();
  if (stop_.is_last_attempt || (is_node_lost && !is_elastic())) {
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

// Blame comes before the message about the restart, so that the box explains the line below it.
// max_restarts in the report is an attempt number, not a count: after a requeue, attempts are
// numbered from first_attempt_ on.
void Leader::judge(const Failure& failure, Time now) {
  Failure shown = failure;
  shown.attempt = layout_.attempt;
  shown.max_restarts = first_attempt_ + plan_.max_restarts.value;
  shown.seconds = outcome_.seconds();
  shown.stopped = outcome_.count_stopped(shown, layout_.slots);
  const RestartPolicy::Answer answer = may_try_again(shown);
  actions_.emplace_back(Blame{shown});
  if (!answer.is_again) {
    if (!answer.why_not.empty()) {
      say(fmt::format("not restarting: {}", answer.why_not));
    }
    finish(outcome_.is_node_lost() ? kTryAgain : shown.status.shell_code());
    return;
  }
  restarts_.remember(shown, progress_);
  if (outcome_.is_node_lost()) {
    try_again(fmt::format("continuing with {}", plural(agents(), "node")), now);
  } else {
    restarts_.count();
    try_again(fmt::format("restart {} of {}", restarts_.used(), plan_.max_restarts.value), now);
  }
}

void Leader::try_again(const std::string& why, Time now) {
  ++layout_.attempt;
  say(fmt::format("starting attempt {}: {}", layout_.attempt, why));
  begin_attempt(now);
}

// The actions of this function are the last ones. Agents that have not been assigned a slot get
// Release as well, else they would wait for the next attempt forever.
void Leader::finish(int code) {
  exit_code_ = code;
  for (const auto& [number, agent] : roster_.agents()) {
    send(number, Release{.code = code, .text = ""});
  }
  phase_ = Phase::Over;
}

// The end of a run that was asked to stop. Workers that exited with 75 saved a checkpoint; this is
// worth more to the caller than the fact that --timeout stopped them.
void Leader::finish_stopped() {
  const int code = outcome_.exit_code();
  finish(stop_.is_timed_out && code != kTryAgain ? kTimedOut : code);
}

// For errors of the launcher and of the cluster. A failure of a worker goes through judge()
// instead, which prints the box and writes failure.json.
void Leader::fail(int code, const std::string& text) {
  if (phase_ == Phase::Over) {
    return;
  }
  say("error: " + text);
  finish(code);
}

// ---- signals and time ----

// The first request is polite (SIGTERM, grace period). The second SIGINT or SIGQUIT kills, as users
// of Ctrl-C expect; a second SIGTERM does not, because the same SIGTERM can arrive on several paths
// (Slurm, a script that forwards it) while the workers save a checkpoint.
void Leader::stop(int signal, const std::string& why, Time now) {
  if (phase_ == Phase::Over) {
    return;
  }
  if (std::exchange(stop_.reported_by_agent, std::nullopt).value_or(Time::min()) >
      now - kSameEvent) {
    return;  // the same event as the report of an agent; see on(Interrupted)
  }
  if (deadlines_.cause) {
    stop_after_failure(now);  // the failure comes first
  }
  stop_.last = now;
  outcome_.record_stop(signal);
  if (phase_ == Phase::Stopping || phase_ == Phase::Explaining) {
    // The failure that stopped the workers stays the verdict, but no attempt may follow.
    if (signal == SIGINT || signal == SIGQUIT) {
      kill(fmt::format("{}: killing all workers now", os::signal_name(signal)));
    }
    stop_.is_last_attempt = true;
    return;
  }
  stop_running(why, plan_.grace_seconds.value, /*is_asked=*/true, now);
}

// Like stop(), with two differences: the grace period is the time that is left in the allocation,
// and `is_asked` is false, because Slurm has sent only a warning to the batch script and no signal
// to the workers. The agents therefore send SIGTERM without a delay.
void Leader::stop_at_limit(double grace_seconds, const std::string& why, Time now) {
  if (phase_ == Phase::Over) {
    return;
  }
  if (deadlines_.cause) {
    stop_after_failure(now);
  }
  stop_.last = now;
  outcome_.record_stop(SIGTERM);
  if (phase_ == Phase::Stopping || phase_ == Phase::Explaining) {
    stop_.is_last_attempt = true;
    return;
  }
  stop_running(why, grace_seconds, /*is_asked=*/false, now);
}

void Leader::stop_running(const std::string& why, double grace_seconds, bool is_asked, Time now) {
  stop_.is_requested = true;
  if (phase_ != Phase::Running) {
    say(fmt::format("{}; no worker had been started", why));
    finish_stopped();
    return;
  }
  stop_workers(why, grace_seconds, is_asked);
  deadlines_.phase = now + to_duration(grace_seconds) + kStopTime;
}

// A kill without a failure before it counts as a request to stop, so that the deaths by SIGKILL are
// not reported as failures.
void Leader::kill(const std::string& why) {
  if (phase_ == Phase::Running || phase_ == Phase::Stopping) {
    say(why);
    phase_ = Phase::Stopping;
    deadlines_.cause.reset();
    stop_.is_requested = stop_.is_requested || !outcome_.has_failed();
    send_to_slots(Kill{});
  }
}

void Leader::pass(int signal) {
  if (phase_ == Phase::Running || phase_ == Phase::Stopping) {
    send_to_slots(Pass{.signal = signal});
  }
}

// Must cover every time that tick() compares with: the caller sleeps until then. Phases are
// declared in the order of a run, so `<= Running` means "not stopped yet".
std::optional<Leader::Time> Leader::deadline() const {
  const bool has_timeout = plan_.timeout_seconds.value > 0 && phase_ <= Phase::Running;
  const Time timeout = began_ + to_duration(plan_.timeout_seconds.value);
  return earliest({deadlines_.phase,
                   deadlines_.last_call,
                   deadlines_.reminder,
                   deadlines_.cause,
                   has_timeout ? std::optional(timeout) : std::nullopt});
}

// At most one of the first two branches runs per call, because each of them changes the phase. The
// reminder and the deadline of the phase can coincide.
void Leader::tick(Time now) {
  if (phase_ == Phase::Over) {
    return;
  }
  if (phase_ <= Phase::Running && plan_.timeout_seconds.value > 0 &&
      now >= began_ + to_duration(plan_.timeout_seconds.value)) {
    stop_.is_timed_out = true;
    stop(SIGTERM, fmt::format("--timeout {} s has expired", plan_.timeout_seconds.value), now);
    return;
  }
  if (deadlines_.last_call && now >= *deadlines_.last_call) {
    begin_attempt(now);
    return;
  }
  if (deadlines_.reminder && now >= *deadlines_.reminder) {
    remind(now);
  }
  if (deadlines_.cause && now >= *deadlines_.cause) {
    stop_after_failure(now);
    return;
  }
  if (deadlines_.phase && now >= *deadlines_.phase) {
    deadlines_.phase.reset();
    begin_stop_at_limit(now);
  }
}

// The deadline of the phase has passed.
void Leader::begin_stop_at_limit(Time now) {
  switch (phase_) {
    case Phase::Gathering:
      if (agents() >= plan_.min_nodes.value) {
        begin_attempt(now);
        break;
      }
      fail(static_cast<int>(ExitCode::Unavailable),
           fmt::format("cannot start the run: {} did not join within {} s",
                       roster_.describe_missing(),
                       plan_.start_timeout_seconds.value));
      break;
    case Phase::Probing:
      choose(now);
      break;
    case Phase::Preparing:
      fail(static_cast<int>(ExitCode::Unavailable),
           fmt::format("cannot start the run: {} did not reserve ports within {} s",
                       roster_.names_without(&Agent::is_prepared),
                       plan_.start_timeout_seconds.value));
      break;
    case Phase::Stopping:
      say(fmt::format("no answer from {}: its workers might still be running",
                      roster_.names_without(&Agent::is_stopped)));
      roster_.mark_all(&Agent::is_stopped);
      stop_.is_last_attempt = true;  // workers that still run occupy the slots, GPUs and ports
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

Failure Leader::failure_without_report(ProcessId process) const {
  const auto slot = static_cast<size_t>(roster_.slot_of(process));
  return outcome_.failure_without_report(process, layout_.slots.at(slot).name, layout_.attempt);
}

// The agent of the failed process; nothing if none failed, or if this agent is lost.
std::optional<int> Leader::find_agent_to_explain() const {
  const auto cause = outcome_.cause();
  return cause ? roster_.find_agent_of(roster_.slot_of(*cause)) : std::nullopt;
}

bool Leader::is_elastic() const {
  return plan_.min_nodes.value < static_cast<int>(plan_.nodes.size());
}

void Leader::send(int agent, Command command) {
  actions_.emplace_back(Send{agent, std::move(command)});
}

void Leader::say(std::string text) {
  actions_.emplace_back(Say{std::move(text)});
}

template <typename Kind>
void Leader::send_to_slots(const Kind& command) {
  for (const auto& [number, agent] : roster_.agents()) {
    if (agent.slot >= 0 && !agent.is_stopped) {
      send(number, command);
    }
  }
}

}  // namespace lockstep::supervisor
