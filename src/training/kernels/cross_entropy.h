// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// The cross entropy of each row of scores [rows, stride], of which the first `classes` columns
// count, with its target. Reads the scores once. losses [rows] may be null. If `gradient` is true
// the scores are replaced by scale x (softmax - one at the target), and zero beyond `classes`.
// stride is a multiple of 8. A target below zero is ignored: loss and gradient are zero. A target
// of `classes` or more makes the loss NaN. Probabilities are never stored.
struct CrossEntropyCall {
  float* losses = nullptr;
  Bf16* scores = nullptr;
  const int64_t* targets = nullptr;
  int64_t rows = 0;
  int64_t classes = 0;
  int64_t stride = 0;
  float scale = 1;
  bool gradient = false;
};
void cross_entropy(const CrossEntropyCall& call, Stream stream);

}  // namespace lockstep::kernels
