// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train/flags.h"

namespace lockstep::train {

// Checks what only -s mirrored takes (--replicas, --auto-shard, --collective), and turns the
// collective into a transport. Throws an Error that says what cannot stand together.
void settle_mirrored_flags(Flags& flags);

}  // namespace lockstep::train
