// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/train/options/flags.h"

namespace lockstep::train {

// Checks the options of -s mirrored (--replicas, --auto-shard, --collective) and converts
// --collective to a transport. Throws an Error for options that conflict.
void settle_mirrored_flags(Flags& flags);

}  // namespace lockstep::train
