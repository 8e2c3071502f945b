// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/gpt2_flops.h"

namespace lockstep::bench {

int64_t gpt2_parameters(const Gpt2Options& options) {
  const int64_t width = options.width;
  const int64_t norm = 2 * width;
  const int64_t attention = width * 3 * width + 3 * width + width * width + width;
  const int64_t feed_forward = width * 4 * width + 4 * width + 4 * width * width + width;
  return options.vocabulary * width + options.context * width +
         options.layers * (2 * norm + attention + feed_forward) + norm;
}

double gpt2_flops_per_token(const Gpt2Options& options, int64_t length) {
  const int64_t weights = gpt2_parameters(options) - options.context * options.width;
  return static_cast<double>(6 * weights + 12 * options.layers * options.width * length);
}

}  // namespace lockstep::bench
