// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/gpt2.h"

namespace lockstep::bench {

// Number of parameters; tied parameters count once.
int64_t gpt2_parameters(const Gpt2Options& options);

// Floating-point operations per token of training on sequences of `length` tokens: 6 N for products
// with weights plus 12 x layers x width x length for attention. N excludes the position embedding,
// which is only looked up. The full attention matrix is counted, as usual (PaLM, nanoGPT), although
// a causal kernel omits half of it.
double gpt2_flops_per_token(const Gpt2Options& options, int64_t length);

}  // namespace lockstep::bench
