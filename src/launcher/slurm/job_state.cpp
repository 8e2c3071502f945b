// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/job_state.h"

#include <algorithm>
#include <array>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::slurm {
namespace {

struct Word {
  std::string_view word;
  JobState state;
};

// Base states and flags of Slurm's job_states. A flag such as COMPLETING replaces the base state in
// the output. sacct truncates words to the column width: "OUT_OF_ME+".
constexpr auto kWords = std::to_array<Word>({
    {"PENDING", JobState::Pending},           {"CONFIGURING", JobState::Configuring},
    {"POWER_UP_NODE", JobState::Configuring}, {"RUNNING", JobState::Running},
    {"RESIZING", JobState::Running},          {"SIGNALING", JobState::Running},
    {"EXPEDITING", JobState::Pending},        {"UPDATE_DB", JobState::Pending},
    {"SUSPENDED", JobState::Suspended},       {"STOPPED", JobState::Suspended},
    {"COMPLETING", JobState::Completing},     {"STAGE_OUT", JobState::Completing},
    {"COMPLETED", JobState::Completed},       {"FAILED", JobState::Failed},
    {"LAUNCH_FAILED", JobState::Failed},      {"RECONFIG_FAIL", JobState::Failed},
    {"CANCELLED", JobState::Cancelled},       {"REVOKED", JobState::Cancelled},
    {"TIMEOUT", JobState::TimedOut},          {"NODE_FAIL", JobState::NodeFailed},
    {"OUT_OF_MEMORY", JobState::OutOfMemory}, {"OUT_OF_ME", JobState::OutOfMemory},
    {"PREEMPTED", JobState::Preempted},       {"REQUEUED", JobState::Requeued},
    {"REQUEUE_HOLD", JobState::Requeued},     {"REQUEUE_FED", JobState::Requeued},
    {"RESV_DEL_HOLD", JobState::Requeued},    {"SPECIAL_EXIT", JobState::Requeued},
    {"BOOT_FAIL", JobState::BootFailed},      {"DEADLINE", JobState::MissedDeadline},
});

}  // namespace

JobState parse_job_state(std::string_view word) {
  // Cut off the rest of "CANCELLED by 2001" and the "+" of words that sacct has truncated.
  const std::string_view plain = word.substr(0, word.find_first_of(" +,"));
  const auto* const found = std::find_if(
      kWords.begin(), kWords.end(), [plain](const Word& known) { return known.word == plain; });
  return found == kWords.end() ? JobState::Unknown : found->state;
}

std::string_view name_of(JobState state) {
  constexpr std::array<std::string_view, 16> kNames = {"pending",
                                                       "configuring",
                                                       "running",
                                                       "suspended",
                                                       "completing",
                                                       "completed",
                                                       "failed",
                                                       "cancelled",
                                                       "timed out",
                                                       "node failed",
                                                       "out of memory",
                                                       "preempted",
                                                       "requeued",
                                                       "boot failed",
                                                       "missed its deadline",
                                                       "unknown"};
  return kNames.at(static_cast<size_t>(state));
}

// COMPLETING is not an end: the epilog still runs, and the exit code can still change. A preempted
// job is an end here; if Slurm requeues it, the state is pending or requeued instead.
bool is_end(JobState state) {
  switch (state) {
    case JobState::Completed:
    case JobState::Failed:
    case JobState::Cancelled:
    case JobState::TimedOut:
    case JobState::NodeFailed:
    case JobState::OutOfMemory:
    case JobState::Preempted:
    case JobState::BootFailed:
    case JobState::MissedDeadline:
      return true;
    default:
      return false;
  }
}

bool is_waiting(JobState state) {
  return state == JobState::Pending || state == JobState::Configuring ||
         state == JobState::Requeued;
}

os::ExitStatus parse_exit_code(std::string_view text) {
  const size_t colon = text.find(':');
  const auto code = find_integer(text.substr(0, colon));
  const auto signal =
      colon == std::string_view::npos ? std::nullopt : find_integer(text.substr(colon + 1));
  return {.code = static_cast<int>(code.value_or(0)),
          .signal = static_cast<int>(signal.value_or(0))};
}

// Codes follow the shell and timeout(1), so that scripts can handle `lockstep submit --wait` like
// the program itself.
int shell_code(JobState state, const os::ExitStatus& exit) {
  constexpr int kKilledForMemory = 128 + 9;
  constexpr int kOutOfTime = 124;  // as in timeout(1)
  switch (state) {
    case JobState::Completed:
      return 0;
    case JobState::Failed:
      if (exit.signal == kOutputSignal && exit.code == 0) {
        return static_cast<int>(ExitCode::Io);
      }
      return exit.is_success() ? 1 : exit.shell_code();
    case JobState::Cancelled:
      return static_cast<int>(ExitCode::Interrupted);
    case JobState::TimedOut:
    case JobState::MissedDeadline:
      return kOutOfTime;
    case JobState::NodeFailed:
    case JobState::BootFailed:
      return static_cast<int>(ExitCode::Unavailable);
    case JobState::OutOfMemory:
      return kKilledForMemory;
    case JobState::Preempted:
      return static_cast<int>(ExitCode::TryAgain);
    default:
      return 0;
  }
}

}  // namespace lockstep::slurm
