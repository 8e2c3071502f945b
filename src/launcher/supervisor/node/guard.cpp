// SPDX-License-Identifier: Apache-2.0
//
//   shell, Slurm --> guard --> agent (own process group) --> workers (own groups each)
//             signals  |  forwarded ^
//                      +-- waits, then kills what is left of the tree
//
// Either death is covered. The agent dies: the guard, a subreaper, inherits all its descendants and
// kills them. The guard dies: the agent gets SIGQUIT (PR_SET_PDEATHSIG) and the workers follow it.
//
// The guard does nothing else: it starts no thread and touches no data of the run, so that nothing
// there can bring it down.
#include "launcher/supervisor/node/guard.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <thread>

#include "common/os/peer_watch.h"
#include "common/os/pipe.h"
#include "common/os/process.h"
#include "common/os/signals.h"
#include "launcher/supervisor/protocol/signal_classifier.h"

namespace lockstep::supervisor {
namespace {

constexpr std::chrono::seconds kCleanUpTime(5);
// Delay of a forwarded signal, so that the agent receives the direct one from Slurm first.
constexpr std::chrono::milliseconds kAfterSlurm(30);

// Signals are forwarded before the exit is looked at: a signal that arrived together with the exit
// is then still delivered, or harmlessly lost with the process.
os::ExitStatus wait_and_forward(os::Child& agent, os::SignalFd& signals) {
  for (;;) {
    std::array<os::Watch, 2> watches = {os::Watch{.fd = signals.fd()}, os::Watch{.fd = agent.fd()}};
    os::wait_for(watches, std::nullopt);
    while (const auto signal = signals.find_arrival()) {
      if (is_from_slurm(*signal)) {
        std::this_thread::sleep_for(kAfterSlurm);
        agent.signal_with(signal->number, kFromSlurm);
      } else {
        agent.signal(signal->number);
      }
      if (signal->number == SIGTSTP) {
        os::stop_self();  // Ctrl-Z: the agent stops the workers; the shell waits for this process
      }
    }
    if (const auto status = agent.find_exit()) {
      return *status;
    }
    os::reap_strangers({agent.pid()});
  }
}

}  // namespace

// fflush before fork, or both processes would write the buffered text. The SignalFd exists before
// the fork, so that a signal that arrives right after it does not kill the guard.
std::optional<int> guard(const std::function<void()>& at_end) {
  std::fflush(nullptr);
  os::become_subreaper();
  os::SignalFd signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT});
  const int guard_pid = os::process_id();
  const int agent_pid = os::fork_process();
  if (agent_pid == 0) {
    os::restore_signal(SIGQUIT);  // a shell starts background jobs with SIGQUIT ignored
    // In its own process group the agent receives Ctrl-C once, from the guard, and not twice.
    os::lead_own_group();
    os::set_parent_death_signal(SIGQUIT);
    if (os::parent_process_id() != guard_pid) {  // the guard died before the line above
      os::leave(128 + SIGKILL);
    }
    return std::nullopt;
  }
  os::Child agent(agent_pid);
  const os::ExitStatus status = wait_and_forward(agent, signals);
  signals.keep_blocked();  // the exit code is that of the run, whatever signal arrives now
  if (at_end) {
    at_end();
  }
  const int killed = os::kill_all_children(kCleanUpTime);
  if (status.signal != 0) {
    os::write_all(2,
                  fmt::format("lockstep: error: the agent was killed by {}; its workers and {} "
                              "other processes were killed\n",
                              os::signal_name(status.signal),
                              killed));
  }
  return status.shell_code();
}

}  // namespace lockstep::supervisor
