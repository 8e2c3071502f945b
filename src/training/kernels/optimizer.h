// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// One tensor that an optimizer updates, all float32, `count` elements each. On the GPU, in a table.
struct UpdatedTensor {
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float* first = nullptr;   // Adam's mean, SGD's momentum; may be null for SGD without
  float* second = nullptr;  // Adam's mean of squares
  Bf16* copy = nullptr;     // is given the new parameter in 16 bits, unless null
  int64_t count = 0;
  int64_t begin = 0;  // how many elements stand before this one in the table
  int group = 0;      // which Rates hold for it
  // Muon only:
  Bf16* update = nullptr;  // the update of a matrix
  float scale = 1;         // factor of the update
};

// What a step is done with; on the GPU, one for each group, written before each step (also by a
// copy that stands before the kernels in a graph).
struct Rates {
  float lr = 0;
  float beta1 = 0;  // SGD and Muon: momentum
  float beta2 = 0;  // SGD: dampening
  float epsilon = 0;
  float weight_decay = 0;
  float correction1 = 1;     // 1 - beta1^step; SGD: 0 in the first step of all, else 1
  float correction2 = 1;     // 1 - beta2^step
  float gradient_scale = 1;  // gradients are multiplied by this first
};

// The sum of squares of all gradients of the table, times gradient_scale^2, in float64; the same
// inputs give the same bits. `tensors` has `count` entries with `elements` elements together.
// `workspace` is square_sum_workspace() bytes.
void square_sum(double* sum,
                const UpdatedTensor* tensors,
                int count,
                int64_t elements,
                const Rates* rates,
                void* workspace,
                Stream stream);
int64_t square_sum_workspace();

// Limits the norm, and leaves the step out where a gradient is not finite; both by `squares`, the
// result of square_sum(), which is null if neither is wanted.
struct Clip {
  const double* squares = nullptr;
  float max_norm = 0;  // 0: no limit; as torch: factor = max_norm / (norm + 1e-6), if below 1
  bool skip_if_not_finite = false;
};

// One step of torch.optim.AdamW (decay apart from the gradient) or, with `decay_in_gradient`, Adam.
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
