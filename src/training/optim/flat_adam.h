// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cstdint>

// Optimizer steps over flat buffers in main memory: one vectorized pass, distributed over the
// threads of libtorch. Every element is computed independently and with the same roundings, so the
// result is equal to the bit however the buffer is divided among calls, threads or workers.
namespace lockstep::optim {

struct FlatAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled_decay = true;  // as in AdamW; otherwise the decay is added to the gradient
  bool bias_correction = true;
};

// Buffers of one step. All have `count` elements and do not overlap.
template <typename Gradient>
struct FlatAdamBuffers {
  float* parameter = nullptr;
  const Gradient* gradient = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  int64_t count = 0;
  // Optional 16-bit copy of the new parameters; at most one of the two.
  c10::BFloat16* bf16_copy = nullptr;
  c10::Half* fp16_copy = nullptr;
};

// Step number `step`, starting at 1. The gradient is divided by `loss_scale`.
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

}  // namespace lockstep::optim
