// SPDX-License-Identifier: Apache-2.0
//
// Requests to a `RunSupervisor`: signals, the time limit of the job, lockstep cancel.
#include <csignal>
#include <fmt/format.h>

#include "common/os/files.h"
#include "launcher/supervisor/leader/run_supervisor.h"

namespace lockstep::supervisor {

// SIGCHLD only wakes the reactor up: exits are read from pidfds. Direct is noted before the signal
// is handled, so that the Stop which follows does not signal the workers again.
void RunSupervisor::take_signals() {
  while (const auto arrival = signals_.find_arrival()) {
    if (arrival->number == SIGCHLD) {
      continue;
    }
    const SignalClassifier::Meaning meaning = signal_classifier_.read(*arrival, Clock::now());
    if (meaning == SignalClassifier::Meaning::Direct && local_) {
      local_->note_signalled(arrival->number);
    }
    if (meaning != SignalClassifier::Meaning::Again) {
      take_signal(arrival->number, meaning != SignalClassifier::Meaning::Ask);
    }
  }
}

// With --requeue this signal announces the time limit (sbatch --signal). It is not passed on, since
// its default action would kill a worker that does not handle it. Repeated signals are ignored.
void RunSupervisor::handle_limit_signal(int signal) {
  if (requeue_->is_limit_near()) {
    return;
  }
  const double grace = requeue_->begin_grace_at_limit();
  leader_.stop_at_limit(
      grace, "received " + os::signal_name(signal) + ": the time limit is near", Clock::now());
}

// A request to stop cancels the requeue, unless it arrives at the time limit itself.
void RunSupervisor::note_cancel() {
  if (requeue_) {
    requeue_->take_cancel(Requeue::Clock::now());
  }
}

// Ctrl-Z must stop the workers even if they handle or ignore SIGTSTP, hence SIGSTOP. The guard
// stops itself meanwhile, so that the shell gets the terminal back.
void RunSupervisor::take_signal(int signal, bool is_slurms) {
  if (requeue_ && signal == plan_.requeue->signal.value) {
    handle_limit_signal(signal);
    return;
  }
  const std::string name = os::signal_name(signal);
  switch (signal) {
    case SIGUSR1:
    case SIGUSR2:
      if (is_slurms && local_) {
        local_->execute(Pass{.signal = signal});  // Slurm signals every node
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
      leader_.stop(SIGQUIT, "received " + name, Clock::now());
      leader_.kill(name + ": killing all workers now");
      break;
    default:
      note_cancel();
      leader_.stop(signal, "received " + name, Clock::now());
  }
}

// The file is removed before the request is executed, so that it acts once. --grace of lockstep
// cancel can only shorten the grace period of the run: the agents kill at the end of their own one.
void RunSupervisor::take_cancel(Clock::time_point now) {
  if (!has_directory_) {
    return;
  }
  if (const auto request = contract::find_cancel(directory_)) {
    os::remove_tree(directory_.cancel());
    note_cancel();
    const std::string why = fmt::format("cancelled by {}", request->who);
    leader_.stop(SIGTERM, why, now);
    if (request->grace_seconds) {
      kill_time_ = now + std::chrono::duration_cast<Clock::duration>(
                             std::chrono::duration<double>(*request->grace_seconds));
    }
    if (request->is_now) {
      leader_.kill(why + ": killing all workers now");
    }
  }
  if (kill_time_ && now >= *kill_time_ && !leader_.is_over()) {
    kill_time_.reset();
    leader_.kill("the grace period of lockstep cancel is over: killing all workers now");
  }
}

}  // namespace lockstep::supervisor
