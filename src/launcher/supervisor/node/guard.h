// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

namespace lockstep::supervisor {

// Forks this process into a guard and an agent, so that no process is left behind if one of them is
// killed.
//
// The parent is the guard: it forwards signals, waits for the agent, kills all remaining
// descendants and returns the exit code. In the child, the agent, the function returns nothing; the
// agent receives SIGQUIT if the guard dies. Must be called before the first thread is created. The
// guard calls `at_end` when the agent has ended, before it kills the remaining processes. Signals
// after that do not change the exit code: Slurm, and scripts that forward signals, send SIGTERM to
// a run that has just requeued its job.
std::optional<int> guard(const std::function<void()>& at_end = {});

}  // namespace lockstep::supervisor
