// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/trainer.h"
#include "training/train/loop/task.h"
#include "training/train/session/session_parts.h"
#include "training/train/verify/table.h"

namespace lockstep::train {

// Steps of a trial without --steps.
inline constexpr int64_t kVerifiedSteps = 50;

// Throws an Error for an option that cannot be combined with --verify-strategies.
void require_exact_flags(const Flags& flags);

// Trains the task under every strategy (or that of -s) with 1 to all workers, and in one process
// for each type and variant, and measures the differences. Restores model and optimizer afterwards.
// All workers must call it; rank 0 returns the report, the others an empty one.
VerifyReport verify(SessionParts& session, const TrainerOptions& options, const Task& task);

}  // namespace lockstep::train
