// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/gpt2.h"

namespace lockstep::bench {

// Parameters of a Gpt2 of these options, tied ones once.
int64_t gpt2_parameters(const Gpt2Options& options);

// Floating point operations of training on one token of texts of `length`: 6 N for the products
// with weights, N being all parameters but the embedding of positions, which is only looked up,
// and 12 x layers x width x length for attention. Of attention the whole square is counted, as is
// the custom (PaLM, nanoGPT), although a causal kernel leaves half of it out.
double gpt2_flops_per_token(const Gpt2Options& options, int64_t length);

}  // namespace lockstep::bench
