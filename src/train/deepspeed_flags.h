// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "deepspeed/resolve.h"
#include "lockstep/optimizer.h"
#include "lockstep/schedule.h"
#include "train/flags.h"

// DeepSpeed's configuration file between the flags and the program's own options: it is laid over
// the options, and a flag must not contradict it.
namespace lockstep::train {

// --deepspeed and --deepspeed_config: chooses the strategy, reads the file. What the file says for
// sure about precision and recomputation counts as typed from here on.
void settle_deepspeed_flags(Flags& flags);

// Each lays its part of the file, if there is one, over `options`, to which the flags have not been
// applied yet.
void lay_file_over(TrainerOptions& options, const Flags& flags, int world_size);
void lay_file_over(StrategyOptions& options, const Flags& flags);
// Returns what was decided where the file leaves it open.
deepspeed::Decisions lay_file_over(OptimizerOptions& options, const Flags& flags);

// The file, which there is, with batch, precision and clipping filled in, and what was decided.
deepspeed::Resolved resolve_file(const TrainerOptions& options, const Flags& flags, int world_size);

// The file's schedule for an optimizer of this rate and a training of this length; nothing: the
// file has none. `decisions`: what was decided where the file leaves it open.
std::optional<Schedule> find_file_schedule(const Flags& flags,
                                           double rate,
                                           const TrainerOptions& options,
                                           int64_t total_steps,
                                           deepspeed::Decisions& decisions);

}  // namespace lockstep::train
