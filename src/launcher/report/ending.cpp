// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/ending.h"

#include <array>
#include <fmt/format.h>
#include <string_view>

#include "common/base/text.h"
#include "common/contract/failure_report.h"
#include "common/contract/launch_plan.h"
#include "common/contract/requeue_record.h"
#include "common/contract/run_state.h"
#include "lockstep/error.h"

// Sources of the outcome, in the order of their authority:
//
//   state.json     phase and exit code; a leader that was killed leaves a phase that is not final
//   failure.json   first failed worker of the last failed attempt, also if a restart succeeded
//   requeue.json   requeues of the job
//   Slurm          the only one that knows about a time limit that killed the leader
//
// failure.json explains the end only if the run failed. After a successful restart it describes an
// earlier attempt and becomes a detail.
namespace lockstep::report {
namespace {

using Kind = Ending::Kind;

// The exit code of timeout(1).
constexpr int kTimedOut = 124;  // exit code after --timeout

std::optional<contract::RunState> readable_state(const contract::RunDirectory& run) {
  try {
    return contract::find_state(run);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<contract::FailureReport> readable_failure(const contract::RunDirectory& run) {
  try {
    return contract::find_failure_report(run);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// "rank 3 on node-a left with code 1"
std::string describe(const contract::FailureReport& report) {
  const std::string& who = report.failure.who;
  const std::string& node = report.failure.node;
  const bool names_node = node.empty() || who.find(node) != std::string::npos;
  return fmt::format("{}{} {}",
                     who.empty() ? "a worker" : who,
                     names_node ? "" : " on " + node,
                     report.how.empty() ? "failed" : report.how);
}

// Finds the error that the Trainer prints when the loss or the weights are not finite
// (training/train/loop/loop.cpp). Runs of earlier versions have the second prefix in their
// failure.json. The text is part of the interface between the two programs: a worker can report
// only an exit code and its output.
std::string find_bad_loss(const contract::Failure& failure) {
  constexpr std::array<std::string_view, 2> kBegins = {"cannot continue: ", "cannot go on: "};
  for (const std::string& line : failure.last_lines) {
    for (const std::string_view begin : kBegins) {
      const size_t at = line.find(begin);
      if (at != std::string::npos && (line.find("the loss is") != std::string::npos ||
                                      line.find("the weights are not") != std::string::npos)) {
        return line.substr(at + begin.size());
      }
    }
  }
  return "";
}

void add_failure(Ending& ending, const contract::FailureReport& report) {
  const contract::Failure& failure = report.failure;
  const auto add = [&ending](const char* label, const std::string& text) {
    if (!text.empty()) {
      ending.details.push_back(fmt::format("{}: {}", label, text));
    }
  };
  ending.is_out_of_memory = failure.out_of_memory == contract::OutOfMemory::Yes;
  ending.bad_loss = find_bad_loss(failure);
  ending.advice = report.hint;
  ending.failed_rank = failure.rank;
  if (failure.exception) {
    add("exception", failure.exception->text);
  }
  add("note", failure.note);
  add("log", failure.log.string());
}

// The value of --timeout in seconds; 0: none.
double find_timeout(const contract::RunDirectory& run) {
  try {
    return contract::read_plan(run).timeout_seconds.value;
  } catch (const Error&) {
    return 0;
  }
}

// A phase that is not final means running, unless the leader is gone: its process does not exist on
// this host, or it has not updated the state for kSilenceSeconds on another one.
Kind kind_of(const contract::RunState& state, double now) {
  switch (contract::sign_of(state, now)) {
    case contract::Sign::Alive:
      return Kind::Running;
    case contract::Sign::Gone:
    case contract::Sign::Silent:
      return Kind::Lost;
    case contract::Sign::Ended:
      break;
  }
  switch (state.phase) {
    case contract::RunPhase::Done:
      return Kind::Done;
    case contract::RunPhase::Failed:
      return Kind::Failed;
    case contract::RunPhase::Requeued:
      return Kind::Requeued;
    default:
      return Kind::Cancelled;
  }
}

std::string code_text(const contract::RunState& state) {
  return state.exit_code ? fmt::format(", exit code {}", *state.exit_code) : "";
}

// The outcome according to state.json alone.
std::string sentence_of(Kind kind, const contract::RunState& state) {
  switch (kind) {
    case Kind::Running:
      return std::string(contract::name_of(state.phase));
    case Kind::Done:
      return "done";
    case Kind::Failed:
      return "failed" + code_text(state);
    case Kind::Requeued:
      return "stopped before the time limit; the job was requeued";
    case Kind::Lost:
      return "killed: the launcher ended without recording a result";
    default:
      return (state.exit_code == static_cast<int>(ExitCode::TryAgain) ? "cancelled at a checkpoint"
                                                                      : "cancelled") +
             code_text(state);
  }
}

// A run that handles SIGTERM can end with its own exit code after --timeout. It is recognized by
// its duration.
void look_at_timeout(Ending& ending,
                     const contract::RunDirectory& run,
                     const contract::RunState& state) {
  const double timeout = find_timeout(run);
  const bool is_over = timeout > 0 && state.ended && *state.ended - state.started >= timeout;
  if (state.exit_code == kTimedOut || (is_over && ending.kind == Kind::Cancelled)) {
    ending.is_time_limit = true;
    ending.sentence = "stopped: --timeout expired" + code_text(state);
  }
}

}  // namespace

// Later sources refine what earlier ones have set: the failure replaces the sentence of a failed
// run, --timeout replaces that of a cancelled one, and Slurm only adds details and the time limit.
Ending find_ending(const contract::RunDirectory& run,
                   const monitor::Snapshot& snapshot,
                   const JobFacts& job,
                   double now) {
  Ending ending;
  const auto failure = readable_failure(run);
  const auto state = readable_state(run);
  if (!state) {
    ending.sentence = "unknown: there is no state.json";
    return ending;
  }
  ending.kind = kind_of(*state, now);
  ending.exit_code = state->exit_code;
  ending.sentence = sentence_of(ending.kind, *state);
  if (failure && ending.kind == Kind::Failed) {
    ending.sentence = "failed: " + describe(*failure);
    add_failure(ending, *failure);
  } else if (failure && snapshot.restarts > 0) {
    ending.details.push_back("last failure: " + describe(*failure));
  }
  look_at_timeout(ending, run, *state);
  if (!state->slurm_job.empty()) {
    const auto record = contract::find_requeue_record(run, state->slurm_job);
    if (!record.text.empty()) {
      ending.details.push_back(record.text);
    }
  }
  const bool is_clean = ending.kind == Kind::Done || ending.kind == Kind::Running;
  if (!job.state.empty() && !is_clean) {
    ending.details.push_back(fmt::format("Slurm state: {}", job.state));
    ending.is_time_limit = ending.is_time_limit || job.has_timed_out;
  }
  return ending;
}

}  // namespace lockstep::report
