// SPDX-License-Identifier: Apache-2.0
//
// The sequence at the end of an allocation, with the times on which the code relies:
//
//   limit - SECONDS     Slurm sends the signal of --signal=B:USR1@SECONDS to the batch script. It
//                       checks limits every 30 s, so the signal can be late.
//   limit - 5 s         end of the grace period that begin_grace_at_limit() returns; SIGKILL
//   ... limit           all agents have left; end() runs scontrol requeue
//   limit               Slurm sends SIGTERM, then SIGKILL after KillWait, to what is left
//
// scontrol requeue makes Slurm end the job at once. The record must therefore be on disk, and every
// worker must have ended, before scontrol is called.
#include "launcher/supervisor/leader/requeue.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <system_error>
#include <thread>
#include <vector>

#include "common/base/text.h"
#include "common/contract/pace.h"
#include "common/os/command.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::seconds;

constexpr int kTryAgain = static_cast<int>(ExitCode::TryAgain);
// The first allocation without a checkpoint is forgiven if the workers exited with 75: it may have
// been short, or spent on compiling and caching. A second one in a row would repeat forever.
constexpr int kMaxWithoutProgress = 2;
// Reserved before the time limit, for the end of all processes and for scontrol.
constexpr seconds kLeavingTime(5);
constexpr seconds kSqueueTime(5);
constexpr seconds kScontrolTime(10);
// Tolerance for the clocks of two machines.
constexpr seconds kClockError(2);

// Size and modification time of a file, to detect a change; empty if it does not exist. A directory
// changes when an entry is added.
std::string stamp_of(const std::string& path) {
  std::error_code fault;
  if (path.empty() || !fs::exists(path, fault)) {
    return "";
  }
  const auto size = fs::is_regular_file(path, fault) ? fs::file_size(path, fault) : 0;
  const auto time = fs::last_write_time(path, fault).time_since_epoch().count();
  return fmt::format("{} {}", size, time);
}

std::string describe_end(const TurnEnd& end) {
  std::string text =
      end.is_limit_near ? "time limit near: stopped" : fmt::format("code {}", end.code);
  if (end.has_progress && end.step > 0) {
    text += fmt::format(" at step {}", end.step);
  }
  return text;
}

std::string find_hint(const plan::RequeueRules& rules, const TurnEnd& end) {
  if (end.checkpoint_seconds) {
    return fmt::format(
        "a checkpoint takes {:.0f} s: increase SECONDS in --signal=B:USR1@SECONDS, or the time "
        "limit",
        std::ceil(*end.checkpoint_seconds));
  }
  if (rules.progress_file.empty()) {
    return "if the program does not save to RUN/checkpoints, set --progress-file; otherwise "
           "increase SECONDS in --signal=B:USR1@SECONDS, or the time limit";
  }
  return fmt::format(
      "{} has not changed: increase SECONDS in --signal=B:USR1@SECONDS, or the time limit",
      rules.progress_file);
}

// Whether a second try makes sense: slurmctld is busy, or its backup takes over. scontrol exits
// with 1 after every error, so only its message distinguishes them.
bool is_passing(const std::string& errors) {
  constexpr std::array<std::string_view, 4> kPassing = {
      "contact", "timed out", "refused", "temporarily"};
  return std::any_of(kPassing.begin(), kPassing.end(), [&errors](std::string_view word) {
    return errors.find(word) != std::string::npos;
  });
}

// Returns the error of scontrol; empty if the job is requeued.
std::string ask_requeue(const std::string& job) {
  const os::CommandResult answer =
      os::run_command({"scontrol", "requeue", job}, {.time_limit = kScontrolTime});
  // Pending: Slurm has requeued the job itself because of a failed node.
  if (answer.status.is_success() || answer.errors.find("pending") != std::string::npos) {
    return "";
  }
  if (answer.is_out_of_time) {
    return fmt::format("timed out after {} s", kScontrolTime.count());
  }
  // Success: Slurm kills all processes of the job that it requeues, and often scontrol before it
  // can print its answer.
  if (answer.status.signal == SIGTERM || answer.status.signal == SIGKILL) {
    return "";
  }
  return answer.errors.empty() ? fmt::format("code {}", answer.status.shell_code()) : answer.errors;
}

// Blocks the event loop for at most kSqueueTime. This happens once, before the workers are stopped;
// they and the agents of other nodes continue meanwhile.
std::optional<double> ask_time_left(const std::string& job) {
  try {
    const os::CommandResult answer =
        os::run_command({"squeue", "-h", "-j", job, "-o", "%L"}, {.time_limit = kSqueueTime});
    return answer.status.is_success() ? find_time_left(answer.output) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // squeue not found: the caller has a fallback
  }
}

}  // namespace

RequeueAnswer judge_requeue(const plan::RequeueRules& rules,
                            const contract::RequeueRecord& before,
                            const TurnEnd& end) {
  const bool asks_for_more = end.code == kTryAgain || end.is_limit_near;
  if (end.is_cancelled || end.code == 0 || !asks_for_more) {
    return {};
  }
  RequeueAnswer answer{.is_again = false, .how = describe_end(end), .why_not = ""};
  if (end.code != kTryAgain && !end.has_progress) {
    answer.why_not = fmt::format("the workers did not exit with code 75, and saved nothing; {}",
                                 find_hint(rules, end));
  } else if (!end.has_progress && before.without_progress + 1 >= kMaxWithoutProgress) {
    answer.why_not = fmt::format("{} allocations in a row saved nothing; {}",
                                 before.without_progress + 1,
                                 find_hint(rules, end));
  } else if (rules.maximum.value > 0 && before.requeues >= rules.maximum.value) {
    answer.why_not = fmt::format("--max-requeues {} is reached; to continue: scontrol requeue {}",
                                 rules.maximum.value,
                                 rules.job);
  } else {
    answer.is_again = true;
  }
  return answer;
}

// Format of Slurm: [D-][HH:]MM:SS. A text without a colon is a word (UNLIMITED, NOT_SET, INVALID).
std::optional<double> find_time_left(std::string_view text) {
  text = trim(text);
  double days = 0;
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto number = find_integer(text.substr(0, dash));
    if (!number || *number < 0) {
      return std::nullopt;
    }
    days = static_cast<double>(*number);
    text.remove_prefix(dash + 1);
  }
  const std::vector<std::string> pieces = split(text, ':');
  if (pieces.size() < 2 || pieces.size() > 3) {
    return std::nullopt;
  }
  double left = 0;
  for (const std::string& piece : pieces) {
    const auto number = find_integer(piece);
    if (!number || *number < 0) {
      return std::nullopt;
    }
    left = left * 60 + static_cast<double>(*number);
  }
  return days * 86400 + left;
}

// Attempts are found on disk, because the launcher of the previous allocation may have been killed
// before it could record their number. SLURM_RESTART_COUNT is the lower bound in case that an
// allocation ended before its first attempt.
int first_attempt(const plan::LaunchPlan& plan) {
  if (plan.slurm_restarts == 0) {
    return 0;
  }
  const std::vector<int> attempts =
      contract::RunDirectory(plan.run_directory.value).find_attempts();
  return std::max(plan.slurm_restarts, attempts.empty() ? 0 : attempts.back() + 1);
}

Requeue::Requeue(const plan::LaunchPlan& plan)
    : plan_(plan),
      rules_(*plan.requeue),
      directory_(plan.run_directory.value),
      step_before_(contract::find_saved_step(directory_)),
      stamp_before_(stamp_of(rules_.progress_file)) {}

double Requeue::begin_grace_at_limit() {
  is_limit_near_ = true;
  const auto now = Clock::now();
  if (rules_.end_time) {
    limit_ = Clock::time_point(seconds(*rules_.end_time));
  }
  // An end time in the past is outdated: an administrator has extended the time limit since the job
  // started (scontrol update TimeLimit).
  if (!limit_ || *limit_ <= now) {
    const auto left = ask_time_left(rules_.job);
    limit_ = left ? std::optional(now + duration_cast<Clock::duration>(duration<double>(*left)))
                  : std::nullopt;
  }
  if (!limit_) {
    return plan_.grace_seconds.value;
  }
  constexpr double kLongest = 3600;  // for a job that was signalled long before its limit
  return std::clamp(
      std::floor(duration<double>(*limit_ - now - kLeavingTime).count()), 1.0, kLongest);
}

// At the time limit Slurm sends SIGTERM, which looks like scancel. The clock distinguishes them:
// after a warning, a request at the limit (minus kClockError) comes from the limit.
void Requeue::take_cancel(Clock::time_point now) {
  const bool is_limit = is_limit_near_ && limit_ && now >= *limit_ - kClockError;
  is_cancelled_ = is_cancelled_ || !is_limit;
}

// Either source suffices: checkpoints in the run directory (lockstep's own format), or a change of
// --progress-file for programs that save elsewhere.
bool Requeue::has_progress() const {
  return contract::find_saved_step(directory_) > step_before_ ||
         stamp_of(rules_.progress_file) != stamp_before_;
}

// `is_limit_near` counts only if the warning stopped the workers. If a worker had failed before,
// the exit code decides alone, as in an allocation without a warning.
std::string Requeue::end(int code, bool is_stopped) {
  const TurnEnd end{.code = code,
                    .is_limit_near = is_limit_near_ && is_stopped,
                    .is_cancelled = is_cancelled_,
                    .has_progress = has_progress(),
                    .step = contract::find_saved_step(directory_),
                    .checkpoint_seconds = contract::find_pace(directory_).checkpoint_seconds};
  contract::RequeueRecord record = contract::find_requeue_record(directory_, rules_.job);
  const RequeueAnswer answer = judge_requeue(rules_, record, end);
  if (!answer.is_again && answer.why_not.empty()) {
    return "";
  }
  record.without_progress = end.has_progress ? 0 : record.without_progress + 1;
  record.step = end.step;
  record.time = duration<double>(Clock::now().time_since_epoch()).count();
  record.is_again = answer.is_again;
  record.requeues += answer.is_again ? 1 : 0;
  const std::string not_again = fmt::format("{}; job {} is not requeued: ", answer.how, rules_.job);
  record.text = answer.is_again ? fmt::format("{}, requeued as job {} (restart {})",
                                              answer.how,
                                              rules_.job,
                                              plan_.slurm_restarts + 1)
                                : not_again + answer.why_not;
  try {
    // Before scontrol, because Slurm may kill this process as soon as the job is requeued. If
    // scontrol fails, the record is corrected below.
    contract::write_requeue_record(directory_, record);
    const std::string fault = answer.is_again ? put_back() : "";
    is_requeued_ = answer.is_again && fault.empty();
    if (!fault.empty()) {
      record.is_again = false;
      --record.requeues;
      record.text = not_again + fault;
      contract::write_requeue_record(directory_, record);
    }
  } catch (const Error& error) {
    // The record cannot be written: do not requeue, since the limits above depend on it and the job
    // could otherwise be requeued for ever.
    record.text = not_again + error.sentence();
  }
  return record.text;
}

std::string Requeue::put_back() const {
  constexpr int kTries = 3;
  constexpr seconds kBetween(2);
  std::string errors;
  for (int turn = 0; turn < kTries; ++turn) {
    if (turn > 0) {
      std::this_thread::sleep_for(kBetween);
    }
    try {
      errors = ask_requeue(rules_.job);
    } catch (const Error& error) {
      return error.sentence();  // scontrol not found
    }
    if (errors.empty()) {
      return "";
    }
    if (!is_passing(errors)) {
      break;
    }
  }
  errors = std::string(trim(errors));
  std::replace(errors.begin(), errors.end(), '\n', ' ');
  const bool is_forbidden = errors.find("disabled") != std::string::npos;
  return fmt::format(
      "scontrol: '{}'{}", errors, is_forbidden ? "; submit the job with sbatch --requeue" : "");
}

}  // namespace lockstep::supervisor
