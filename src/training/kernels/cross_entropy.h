// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// Cross entropy of each row of scores [rows, stride] with its target. Only the first `classes`
// columns are scores; stride is a multiple of 8. Reads the scores once and never stores
// probabilities. losses [rows] can be null. If `gradient` is true, the scores are replaced by scale
// x (softmax - one_hot(target)), and by zero beyond `classes`. Negative targets are ignored: loss
// and gradient are zero. A target of `classes` or more makes the loss NaN.
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
