// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// Adds each row of output_gradient [count, columns] to the row of its token in token_gradient
// [tokens, columns]. `sorted` and `order` are the results of a stable sort of the tokens: values in
// ascending order and original positions. columns is a multiple of 8. The result is deterministic.
void embedding_backward(float* token_gradient,
                        const Bf16* output_gradient,
                        const int64_t* sorted,
                        const int64_t* order,
                        int64_t count,
                        int64_t columns,
                        Stream stream);

// position_gradient [length, columns]: row p is the sum of the rows i of output_gradient with i %
// length == p. count is a multiple of length. Overwrites the destination.
void position_backward(float* position_gradient,
                       const Bf16* output_gradient,
                       int64_t count,
                       int64_t length,
                       int64_t columns,
                       Stream stream);

}  // namespace lockstep::kernels
