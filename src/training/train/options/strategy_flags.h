// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/train/options/flags.h"

namespace lockstep::train {

// Throws an Error for an option of the gradient exchange that the strategy of -s does not support.
// Without -s all options are accepted, so that the same command line works for one worker (single)
// and for several (ddp), and --verify-strategies can use all strategies.
void require_strategy_flags(const Flags& flags);

// Throws an Error for a number that is out of range regardless of the options of the program.
void require_numbers(const Flags& flags);

}  // namespace lockstep::train
