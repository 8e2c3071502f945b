// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train/flags.h"

namespace lockstep::train {

// Throws an Error for a flag of the exchange of gradients that the strategy after -s would ignore.
// Without -s nothing is refused: one line then serves one worker (single) and many (ddp), and
// --verify-strategies tries them all.
void require_strategy_flags(const Flags& flags);

// Throws an Error for a number that makes no sense whatever the program's own options are.
void require_numbers(const Flags& flags);

}  // namespace lockstep::train
