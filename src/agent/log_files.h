// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>

#include "contract/worker_env.h"
#include "plan/plan.h"

namespace lockstep::agent {

// Where the output of one worker is kept, and which of its streams the console shows.
struct LogFiles {
  // What the user asked for beside the run's own log; an empty path means none.
  struct OfStream {
    std::filesystem::path torchrun;  // LOG_DIR/RUN_ID/attempt_0/0/stdout.log
    std::filesystem::path horovod;   // DIR/rank.03/stdout
    bool is_shown = true;

    bool operator==(const OfStream&) const = default;
  };

  std::filesystem::path log;  // of the run directory: both streams; empty: none
  std::array<OfStream, 2> streams;

  bool operator==(const LogFiles&) const = default;
};

// The files of the worker at `place` by the user's rules. On several nodes the torchrun files of
// node N lie below LOG_DIR/RUN_ID_N, because local ranks repeat and the directory may be shared.
LogFiles log_files(const plan::OutputRules& rules, const contract::WorkerPlace& place);

}  // namespace lockstep::agent
