// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <torch/torch.h>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// into[i] = into[i] (reduction) from[i]; `type` is one that Communicator lets through.
void reduce_into(
    void* into, const void* from, size_t count, torch::ScalarType type, Reduction reduction);

// into[i] = a[i] (reduction) b[i], in one pass.
void reduce_pair(void* into,
                 const void* a,
                 const void* b,
                 size_t count,
                 torch::ScalarType type,
                 Reduction reduction);

}  // namespace lockstep::comm
