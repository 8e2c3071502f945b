// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// The tensors of one parameter, float32 with `count` elements each. The table is on the GPU.
struct UpdatedTensor {
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float* first = nullptr;   // first moment of Adam, momentum of SGD; null: no momentum
  float* second = nullptr;  // second moment of Adam
  Bf16* copy = nullptr;     // receives the new parameter in 16 bits, unless null
  int64_t count = 0;
  int64_t begin = 0;  // number of elements before this entry in the table
  int group = 0;      // index of its Rates
  // Muon only:
  Bf16* update = nullptr;  // the update of a matrix
  float scale = 1;         // factor of the update
};

// Coefficients of a step; one entry for each group, on the GPU. Updated before each step, also by a
// copy at the start of a recorded CUDA graph.
struct Rates {
  float lr = 0;
  float beta1 = 0;  // SGD and Muon: momentum
  float beta2 = 0;  // SGD: dampening
  float epsilon = 0;
  float weight_decay = 0;
  float correction1 = 1;     // 1 - beta1^step; SGD: 0 in the first step, then 1
  float correction2 = 1;     // 1 - beta2^step
  float gradient_scale = 1;  // gradients are multiplied by this first
};

// Computes the sum of squares of all gradients of the table, times gradient_scale^2, in float64.
// The result is deterministic. `tensors` has `count` entries with a total of `elements` elements.
// `workspace` has square_sum_workspace() bytes.
void square_sum(double* sum,
                const UpdatedTensor* tensors,
                int count,
                int64_t elements,
                const Rates* rates,
                void* workspace,
                Stream stream);
int64_t square_sum_workspace();

// Clips the gradient norm, and skips the step if a gradient is not finite. Both need `squares`, the
// result of square_sum(); null: neither.
struct Clip {
  const double* squares = nullptr;
  float max_norm = 0;  // 0: no limit. Factor as in torch: max_norm / (norm + 1e-6), if below 1
  bool skip_if_not_finite = false;
};

// One step of torch.optim.AdamW (decoupled decay) or, with `decay_in_gradient`, of Adam.
void adamw_step(const UpdatedTensor* tensors,
                int count,
                int64_t elements,
                const Rates* rates,
                const Clip& clip,
                bool decay_in_gradient,
                Stream stream);

// One step of torch.optim.SGD.
void sgd_step(const UpdatedTensor* tensors,
              int count,
              int64_t elements,
              const Rates* rates,
              const Clip& clip,
              bool nesterov,
              Stream stream);

// A step of Muon in two halves; between them, the updates of the matrices are made orthogonal. The
// first half is the Nesterov momentum:
//
//   first = beta1 * first + g
//   update = g + beta1 * first
void muon_momentum(const UpdatedTensor* tensors,
                   int count,
                   int64_t elements,
                   const Rates* rates,
                   const Clip& clip,
                   Stream stream);

// The second half: parameter = (1 - lr * weight_decay) * parameter - lr * scale * update.
void muon_update(const UpdatedTensor* tensors,
                 int count,
                 int64_t elements,
                 const Rates* rates,
                 const Clip& clip,
                 Stream stream);

}  // namespace lockstep::kernels
