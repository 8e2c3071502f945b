// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train/session_parts.h"

namespace lockstep::train {

// Throws an Error for the first thing that was asked for, by a flag or in ds_config.json, and that
// the Trainer does: a program with a loop of its own would pass over it in silence.
void require_no_trainer_flags(const Flags& flags);

// Warns of --precision and --recompute where such a program never looked at them.
void warn_of_unused_flags(const SessionParts& session);

}  // namespace lockstep::train
