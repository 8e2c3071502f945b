// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/trainer.h"
#include "train/loop.h"
#include "train/session_parts.h"
#include "train/verify_table.h"

namespace lockstep::train {

// Steps of a trial where --steps says nothing.
inline constexpr int64_t kVerifiedSteps = 50;

// Throws an Error for a flag that cannot stand beside --verify-strategies.
void require_exact_flags(const Flags& flags);

// Trains the task under every strategy (or the one after -s) on 1 up to all workers, and once in
// one process for each type and variant, and tells how far apart they end. Model and optimizer are
// then as before. All workers call it; rank 0 returns the report, the others an empty one.
VerifyReport verify(SessionParts& session, const TrainerOptions& options, const Task& task);

}  // namespace lockstep::train
