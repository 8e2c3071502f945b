// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// Adds to token_gradient [tokens, columns] the rows of output_gradient [count, columns] by their
// tokens. `sorted` are the tokens in rising order, `order` where each of them stood, as a stable
// sort gives them; columns is a multiple of 8. The same inputs give the same bits.
void embedding_backward(float* token_gradient,
                        const Bf16* output_gradient,
                        const int64_t* sorted,
                        const int64_t* order,
                        int64_t count,
                        int64_t columns,
                        Stream stream);

// position_gradient [length, columns] = the sums of the rows i of output_gradient with the same
// i % length; count is a multiple of length. Overwrites.
void position_backward(float* position_gradient,
                       const Bf16* output_gradient,
                       int64_t count,
                       int64_t length,
                       int64_t columns,
                       Stream stream);

}  // namespace lockstep::kernels
