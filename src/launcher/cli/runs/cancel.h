// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "launcher/cli/runs/runs.h"

namespace lockstep::cli {

struct CancelOptions {
  bool is_now = false;  // SIGKILL without a grace period
  std::optional<double> grace_seconds;
  std::string who;  // user@host, for the log of the run
};

// The clock; tests replace it to make time pass faster.
struct CancelClock {
  std::function<double()> now;  // seconds since the epoch
  std::function<void(std::chrono::milliseconds)> sleep;
};

// Requests the leader of the run to stop, through the file RUN/cancel and, on the same machine,
// also through a signal, and waits for the end. `tell` gets lines for the user, `wait` the text of
// a progress line. Returns when the run has ended or its launcher no longer exists. Throws an Error
// (69) if the run does not end in time or cannot be reached.
void cancel_run(const Run& run,
                const CancelOptions& options,
                const CancelClock& clock,
                const std::function<void(const std::string&)>& tell,
                const std::function<void(const std::string&)>& wait);

}  // namespace lockstep::cli
