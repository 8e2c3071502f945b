// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "cli/runs.h"

namespace lockstep::cli {

struct CancelWishes {
  bool is_now = false;  // kill instead of asking
  std::optional<double> grace_seconds;
  std::string who;  // user@host, for the run's log
};

// How the time goes while a run ends; a test makes it go faster.
struct CancelClock {
  std::function<double()> now;  // seconds since the epoch
  std::function<void(std::chrono::milliseconds)> sleep;
};

// Asks the run's leader to stop, by RUN/cancel and, on the same machine, by a signal, and waits
// until it has; `tell` gets a line for the user, `wait` the words of a progress line. Returns when
// nothing of the run is left, or its launcher is gone. Throws an Error (69) when the run does not
// end in time or cannot be reached.
void cancel_run(const Run& run,
                const CancelWishes& wishes,
                const CancelClock& clock,
                const std::function<void(const std::string&)>& tell,
                const std::function<void(const std::string&)>& wait);

}  // namespace lockstep::cli
