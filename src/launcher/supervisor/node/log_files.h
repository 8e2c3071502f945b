// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>

#include "common/contract/worker_env.h"
#include "launcher/plan/plan.h"

namespace lockstep::supervisor {

// The files for the output of one worker, and which of its streams the console shows.
struct LogFiles {
  // Files in addition to the log of the run; an empty path means none.
  struct OfStream {
    std::filesystem::path torchrun;  // LOG_DIR/RUN_ID/attempt_0/0/stdout.log
    std::filesystem::path horovod;   // DIR/rank.03/stdout
    bool is_shown = true;

    bool operator==(const OfStream&) const = default;
  };

  std::filesystem::path log;  // in the run directory, for both streams; empty: none
  std::array<OfStream, 2> streams;

  bool operator==(const LogFiles&) const = default;
};

// The files of the worker with `spec`. On several nodes the torchrun files of node N are stored
// below LOG_DIR/RUN_ID_N, because local ranks repeat and the directory may be shared.
LogFiles log_files(const plan::OutputRules& rules, const contract::WorkerSpec& spec);

}  // namespace lockstep::supervisor
