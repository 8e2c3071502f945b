// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/train/options/flags.h"
#include "training/train/options/option_table.h"

namespace lockstep::train {

// Throws an Error that names option and strategy if an option with this scope was given and the
// strategy of -s does not support it.
void require_support(const Flags& flags, Scope scope);

// Sets the strategy if a given option selects one. Throws an Error if -s selects another one.
void select_strategy(Flags& flags);

// Throws an Error for a number that is out of range regardless of the options of the program.
void require_numbers(const Flags& flags);

// Converts --collective to a transport. Throws an Error if --transport selects another one.
void settle_collective(Flags& flags);

}  // namespace lockstep::train
