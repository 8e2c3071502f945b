// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/train/session/session_parts.h"

namespace lockstep::train {

// Throws an Error for the first option, on the command line or in ds_config.json, that only the
// Trainer implements. A program with a custom training loop would silently ignore it.
void require_no_trainer_flags(const Flags& flags);

// Logs a warning if --precision or --recompute is given and such a program never queried it.
void warn_of_unused_flags(const SessionParts& session);

}  // namespace lockstep::train
