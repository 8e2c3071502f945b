// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/optimizer.h"
#include "lockstep/schedule.h"
#include "training/deepspeed/resolve.h"
#include "training/train/options/flags.h"

// Applies ds_config.json. Precedence: the file overrides the options of the program, and the
// command line must not contradict the file.
namespace lockstep::train {

// Handles --deepspeed and --deepspeed_config: selects the strategy and reads the file. Definite
// values of precision and recomputation in the file are stored in `flags`, as if they were given on
// the command line. Throws an Error if the file is invalid or conflicts with the command line.
void settle_deepspeed_flags(Flags& flags);

// Apply the corresponding part of the file, if there is one, to `options`. Call them before the
// command line is applied.
void lay_file_over(TrainerOptions& options, const Flags& flags, int world_size);
void lay_file_over(StrategyOptions& options, const Flags& flags);
// Returns the decisions for values that the file leaves open ("auto").
deepspeed::Decisions lay_file_over(OptimizerOptions& options, const Flags& flags);

// Returns the file with resolved values of batch, precision and clipping, and the decisions for
// values that it leaves open. Requires flags.file.
deepspeed::Resolved resolve_file(const TrainerOptions& options, const Flags& flags, int world_size);

// Returns the schedule of the file for the learning rate `rate` and a training of `total_steps`, or
// nothing if the file has none. `decisions` receives the decisions for values that the file leaves
// open.
std::optional<Schedule> find_file_schedule(const Flags& flags,
                                           double rate,
                                           const TrainerOptions& options,
                                           int64_t total_steps,
                                           deepspeed::Decisions& decisions);

}  // namespace lockstep::train
