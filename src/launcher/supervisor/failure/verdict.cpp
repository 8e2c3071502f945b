// SPDX-License-Identifier: Apache-2.0
//
// Without the weights below, the report would blame the wrong rank in the most common case: rank 3
// is killed, rank 0 notices the closed connection, prints an exception and exits with 1, and its
// agent reports first. The blame moves only upwards.
#include "launcher/supervisor/failure/verdict.h"

#include <algorithm>
#include <array>
#include <csignal>

#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

constexpr int kTryAgain = static_cast<int>(ExitCode::TryAgain);

// How much an exit status explains. Exit code 75 explains least: it often means a lost peer.
int weight(os::ExitStatus status) {
  if (status.signal != 0) {
    return 2;
  }
  return status.code == kTryAgain ? 0 : 1;
}

bool is_crash(int signal) {
  constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  return std::find(kCrashes.begin(), kCrashes.end(), signal) != kCrashes.end();
}

// After a signal from the agent almost every exit is a consequence. Two kinds are a cause: a
// SIGKILL that the agent did not send (the OOM killer, an administrator), and a crash, if the cause
// so far is only a worker that lost its peer.
bool takes_blame(os::ExitStatus candidate, int sent, os::ExitStatus cause) {
  if (sent == 0) {
    return weight(candidate) > weight(cause);
  }
  if (cause.signal != 0) {
    return false;
  }
  const bool is_foreign_kill = candidate.signal == SIGKILL && sent != SIGKILL;
  return is_foreign_kill || (cause.code == kTryAgain && is_crash(candidate.signal));
}

}  // namespace

// After a request to stop, statuses are still recorded for exit_code(), but none is a failure: a
// worker that dies of SIGTERM has done what was requested.
void Verdict::record_exit(ProcessId process, os::ExitStatus status, int sent) {
  statuses_[process] = status;
  if (status.is_success() || stop_ != 0) {
    return;
  }
  if (!cause_ || takes_blame(status, sent, statuses_.at(*cause_))) {
    cause_ = process;
  }
}

void Verdict::record_stop(int signal) {
  if (!is_over()) {
    stop_ = signal;
  }
}

bool Verdict::may_have_another_cause() const {
  return cause_ && weight(statuses_.at(*cause_)) == 0;
}

// Exit code 75 of any worker wins: it has saved a checkpoint and asks to be started again. SIGHUP
// and SIGTERM are the same request, and have one exit code.
int Verdict::exit_code() const {
  if (cause_) {
    return statuses_.at(*cause_).shell_code();
  }
  if (stop_ == 0) {
    return 0;
  }
  const bool may_go_on = std::any_of(statuses_.begin(), statuses_.end(), [](const auto& entry) {
    return entry.second == os::ExitStatus{.code = kTryAgain, .signal = 0};
  });
  if (may_go_on) {
    return kTryAgain;
  }
  return 128 + (stop_ == SIGHUP ? SIGTERM : stop_);
}

}  // namespace lockstep::supervisor
