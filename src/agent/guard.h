// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

namespace lockstep::agent {

// Splits this process in two, so that no single death leaves processes behind.
//
// The parent stays as guard: it passes signals on, waits, kills every descendant that is left and
// returns the exit code. The child gets nothing back and goes on as the agent; it is told by
// SIGQUIT when the guard has died. Call it before the first thread. `at_end` is called in the guard
// when the agent has ended, before what is left is killed. A signal that comes from then on changes
// the exit code no more: Slurm, and a script that hands its signals on, send SIGTERM to a run that
// has just put its job back.
std::optional<int> guard(const std::function<void()>& at_end = {});

}  // namespace lockstep::agent
