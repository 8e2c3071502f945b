// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include "training/kernels/fp8.h"

namespace lockstep::models {

// The tensors of a block that are rounded to fp8. Each has its own scale.
enum class Fp8Slot {
  Norm1,     // input of the query-key-value projection
  Attended,  // input of the output projection of attention
  Norm2,     // input of the first MLP projection
  Wide,      // input of the second MLP projection
  MixWeight,
  OutWeight,
  UpWeight,
  DownWeight,
  // Gradients of the outputs of the four projections, in e5m2.
  MixGradient,
  OutGradient,
  UpGradient,
  DownGradient,
  Count
};

// The scales of one pass. An autograd graph keeps the scales of its forward pass, so that another
// forward pass before its backward cannot change them.
class Fp8Scales {
 public:
  Fp8Scales() = default;
  Fp8Scales(torch::Tensor scales, torch::Tensor history, bool records)
      : scales_(std::move(scales)), history_(std::move(history)), records_(records) {}

  const kernels::Fp8Scale* scale(int64_t index) const;
  // Null if maxima are not recorded.
  kernels::Fp8History* history(int64_t index) const;
  const float* inverse(int64_t index) const { return &scale(index)->inverse; }

  static int64_t of_block(int64_t block, Fp8Slot slot);

 private:
  torch::Tensor scales_;   // kernels::Fp8Scale for each tensor
  torch::Tensor history_;  // kernels::Fp8History for each tensor
  bool records_ = false;
};

// Delayed scaling of one model on one GPU. The first training pass computes in bfloat16 and only
// records maxima, because there are no scales yet. From the second pass, blocks use fp8.
class Fp8State {
 public:
  enum class Mode { Bf16, Measuring, Fp8 };

  Fp8State(const torch::Tensor& like, int64_t blocks);

  // Must be called at the start of a forward pass. Evaluation (`trains` is false) uses the scales
  // of training and records no maxima, so that it does not affect training.
  void begin(bool trains);

  // Must be called from a backward pass: the maxima of gradients are known from then on.
  void note_backward() { has_gradients_ = true; }

  Mode mode() const { return mode_; }
  const Fp8Scales& scales() const { return scales_; }

 private:
  int64_t count_;
  torch::Tensor history_;
  Fp8Scales scales_;
  Mode mode_ = Mode::Bf16;
  bool has_gradients_ = false;
  bool is_calibrated_ = false;
};

}  // namespace lockstep::models
