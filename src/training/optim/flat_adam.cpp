// SPDX-License-Identifier: Apache-2.0
#include "training/optim/flat_adam.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::optim {
namespace {

constexpr int64_t kBlock = 1024;        // elements that fit into the L1 cache
constexpr int64_t kMinShare = 1 << 15;  // minimum elements per thread; fewer would not pay

// Adam (Kingma, Ba 2015) and AdamW on flat arrays, one pass over memory: four arrays are read and
// three written, and nothing else is touched. The formulas are those of torch.optim; with t = step:
//
//   g = gradient / loss_scale + penalty * p      penalty: weight decay of Adam, else 0
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g^2
//   p = p * shrink - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// shrink is 1 - lr * weight decay in AdamW (Loshchilov, Hutter 2019), else 1.
//
// 16-bit gradients are widened in blocks that stay in the L1 cache. Coefficients are computed once
// per step in float64.
struct Step {
  float beta1;
  float beta2;
  float one_minus_beta1;
  float one_minus_beta2;
  float step_size;
  float root_correction;  // divisor of the square root of the second moment
  float epsilon;
  float shrink;   // AdamW: factor of the parameter
  float penalty;  // Adam: factor of the parameter, added to the gradient
  float unscale;
};

Step make_step(int64_t step, const FlatAdamOptions& options, double loss_scale) {
  const auto count = static_cast<double>(step);
  const double first = options.bias_correction ? 1 - std::pow(options.beta1, count) : 1;
  const double second = options.bias_correction ? 1 - std::pow(options.beta2, count) : 1;
  const bool is_decoupled = options.decoupled_decay;
  return {.beta1 = static_cast<float>(options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .one_minus_beta1 = static_cast<float>(1 - options.beta1),
          .one_minus_beta2 = static_cast<float>(1 - options.beta2),
          .step_size = static_cast<float>(options.lr / first),
          .root_correction = static_cast<float>(std::sqrt(second)),
          .epsilon = static_cast<float>(options.epsilon),
          .shrink = static_cast<float>(is_decoupled ? 1 - options.lr * options.weight_decay : 1),
          .penalty = static_cast<float>(is_decoupled ? 0 : options.weight_decay),
          .unscale = static_cast<float>(1 / loss_scale)};
}

// The compiler vectorizes this loop: no branch, no call, no overlap.
void update_block(float* __restrict parameter,
                  const float* __restrict gradient,
                  float* __restrict exp_avg,
                  float* __restrict exp_avg_sq,
                  int64_t count,
                  const Step& step) {
  const Step s = step;  // a copy, which no store below can alias
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * s.unscale + s.penalty * parameter[i];
    const float m = exp_avg[i] * s.beta1 + g * s.one_minus_beta1;
    const float v = exp_avg_sq[i] * s.beta2 + g * g * s.one_minus_beta2;
    const float root = std::sqrt(v) / s.root_correction + s.epsilon;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    parameter[i] = parameter[i] * s.shrink - s.step_size * (m / root);
  }
}

template <typename From, typename To>
void convert(const From* __restrict from, To* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<To>(from[i]);
  }
}

template <typename Gradient>
void update_part(const FlatAdamBuffers<Gradient>& buffers,
                 int64_t begin,
                 int64_t end,
                 const Step& step) {
  std::array<float, kBlock> wide;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    const float* gradient = nullptr;
    if constexpr (std::is_same_v<Gradient, float>) {
      gradient = buffers.gradient + at;
    } else {
      convert(buffers.gradient + at, wide.data(), count);
      gradient = wide.data();
    }
    update_block(buffers.parameter + at,
                 gradient,
                 buffers.exp_avg + at,
                 buffers.exp_avg_sq + at,
                 count,
                 step);
    if (buffers.bf16_copy != nullptr) {
      convert(buffers.parameter + at, buffers.bf16_copy + at, count);
    }
    if (buffers.fp16_copy != nullptr) {
      convert(buffers.parameter + at, buffers.fp16_copy + at, count);
    }
  }
}

template <typename Gradient>
void update(const FlatAdamBuffers<Gradient>& buffers,
            int64_t step,
            const FlatAdamOptions& options,
            double loss_scale) {
  const Step numbers = make_step(step, options, loss_scale);
  at::parallel_for(0, buffers.count, kMinShare, [&](int64_t begin, int64_t end) {
    update_part(buffers, begin, end, numbers);
  });
}

}  // namespace

void flat_adam(const FlatAdamBuffers<float>& buffers,
               int64_t step,
               const FlatAdamOptions& options,
               double loss_scale) {
  update(buffers, step, options, loss_scale);
}

void flat_adam(const FlatAdamBuffers<c10::BFloat16>& buffers,
               int64_t step,
               const FlatAdamOptions& options,
               double loss_scale) {
  update(buffers, step, options, loss_scale);
}

void flat_adam(const FlatAdamBuffers<c10::Half>& buffers,
               int64_t step,
               const FlatAdamOptions& options,
               double loss_scale) {
  update(buffers, step, options, loss_scale);
}

}  // namespace lockstep::optim
