// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cstdint>

// Optimizer steps over flat buffers in main memory: one pass, vectorised, shared among libtorch's
// threads. Every element is computed by itself with the same roundings, so the result is the same
// to the last bit however the buffer is cut up among calls, threads or workers.
namespace lockstep::optim {

struct FlatAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled_decay = true;  // AdamW's; else the decay is part of the gradient
  bool bias_correction = true;
};

// What one step reads and writes; all buffers have `count` elements and do not overlap.
template <typename Gradient>
struct FlatAdamBuffers {
  float* parameter = nullptr;
  const Gradient* gradient = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  int64_t count = 0;
  // The new parameters once more in sixteen bits; at most one of them.
  c10::BFloat16* bf16_copy = nullptr;
  c10::Half* fp16_copy = nullptr;
};

// Step number `step`, from 1. The gradient is divided by `loss_scale` on its way.
void flat_adam(const FlatAdamBuffers<float>& buffers,
               int64_t step,
               const FlatAdamOptions& options,
               double loss_scale = 1);
void flat_adam(const FlatAdamBuffers<c10::BFloat16>& buffers,
               int64_t step,
               const FlatAdamOptions& options,
               double loss_scale = 1);
void flat_adam(const FlatAdamBuffers<c10::Half>& buffers,
               int64_t step,
               const FlatAdamOptions& options,
               double loss_scale = 1);

struct FlatSgdOptions {
  double lr = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// `momentum_buffer` may be null where there is no momentum; the first step fills it.
void flat_sgd(float* parameter,
              const float* gradient,
              float* momentum_buffer,
              int64_t count,
              bool is_first,
              const FlatSgdOptions& options);

}  // namespace lockstep::optim
