// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <torch/types.h>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// Computes into[i] = from[0][i] (reduction) from[1][i] ..., in this order. `type` is one that
// Communicator passes to transports. `into` may be one of `from`. Half and bfloat16 are added as
// floats and rounded once.
void reduce_all(void* into,
                std::span<const void* const> from,
                size_t count,
                torch::ScalarType type,
                Reduction reduction);

}  // namespace lockstep::comm
