// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/gpt2_flops.h"

namespace lockstep::bench {

// Per block: two layer norms (weight and bias), attention (query, key, value and output projection,
// with biases) and a feed-forward part of four times the width. The output projection shares the
// token embedding; the final layer norm is added once.
int64_t gpt2_parameters(const Gpt2Options& options) {
  const int64_t width = options.width;
  const int64_t norm = 2 * width;
  const int64_t attention = width * 3 * width + 3 * width + width * width + width;
  const int64_t feed_forward = width * 4 * width + 4 * width + 4 * width * width + width;
  return options.vocabulary * width + options.context * width +
         options.layers * (2 * norm + attention + feed_forward) + norm;
}

// Two operations per weight in forward and four in backward. Attention: two products of length x
// width per layer, two operations each, three times (forward and backward): 12.
double gpt2_flops_per_token(const Gpt2Options& options, int64_t length) {
  const int64_t weights = gpt2_parameters(options) - options.context * options.width;
  return static_cast<double>(6 * weights + 12 * options.layers * options.width * length);
}

}  // namespace lockstep::bench
