// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/device.cuh"
#include "training/kernels/launch.h"
#include "training/kernels/optimizer.cuh"
#include "training/kernels/optimizer.h"

namespace lockstep::kernels {
namespace {

// One launch updates all parameters of a model (optimizer.cuh).
//
// AdamW (Loshchilov, Hutter 2019), with m = first, v = second, t = step:
//
//   p = p * (1 - lr * weight_decay)      (Adam adds weight_decay * p to g instead)
//   m = beta1 * m + (1 - beta1) * g
//   v = beta2 * v + (1 - beta2) * g^2
//   p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// The host computes the corrections 1 - beta^t in float64 and copies them before the step (Rates):
// kernels of a CUDA graph are replayed with the same arguments and do not know t.
constexpr int kAhead = 2;            // groups of kWide elements in flight per thread
constexpr int kSquareBlocks = 2048;  // maximum number of blocks
constexpr int kSquareAhead = 4;

// ---- the sum of squares

__device__ __forceinline__ double square(float value) {
  const auto wide = static_cast<double>(value);
  return wide * wide;
}

__device__ __forceinline__ double squares_of(const float4& value) {
  return (square(value.x) + square(value.y)) + (square(value.z) + square(value.w));
}

__device__ double squares_of_part(const float* gradient, int64_t from, int64_t to) {
  const auto thread = static_cast<int64_t>(threadIdx.x);
  double sum = 0;
  if (!is_aligned(gradient, sizeof(float4))) {
    for (int64_t i = from + thread; i < to; i += kThreads) {
      sum += square(gradient[i]);
    }
    return sum;
  }
  const int64_t body = (from + kWide - 1) / kWide * kWide;
  const int64_t tail = to / kWide * kWide;
  if (body > tail) {  // contains no whole group
    for (int64_t i = from + thread; i < to; i += kThreads) {
      sum += square(gradient[i]);
    }
    return sum;
  }
  if (from + thread < body) {
    sum += square(gradient[from + thread]);
  }
  if (tail + thread < to) {
    sum += square(gradient[tail + thread]);
  }
  constexpr int64_t kStep = static_cast<int64_t>(kThreads) * kWide;
  int64_t at = body + thread * kWide;
  for (; at + (kSquareAhead - 1) * kStep < tail; at += kSquareAhead * kStep) {
    float4 values[kSquareAhead];
#pragma unroll
    for (int i = 0; i < kSquareAhead; ++i) {
      values[i] = load_wide(gradient, at + i * kStep);
    }
#pragma unroll
    for (int i = 0; i < kSquareAhead; ++i) {
      sum += squares_of(values[i]);
    }
  }
  for (; at < tail; at += kStep) {
    sum += squares_of(load_wide(gradient, at));
  }
  return sum;
}

// Sum of squares of all gradients, in two stages with a fixed order: each block adds up its own
// part of the table, then one block adds up the partial sums. Sums are in float64, because squares
// of float32 gradients can overflow float32, and a float32 sum over all of them would lose digits.
__global__ __launch_bounds__(kThreads) void square_sum_kernel(double* partials,
                                                              const UpdatedTensor* tensors,
                                                              int count,
                                                              int64_t elements,
                                                              int64_t stretch,
                                                              const Rates* rates) {
  __shared__ double by_warp[kWarp];
  const int64_t start = static_cast<int64_t>(blockIdx.x) * stretch;
  const int64_t stop = start + stretch < elements ? start + stretch : elements;
  double sum = 0;
  for_each_part(
      tensors, count, start, stop, [&](const UpdatedTensor& tensor, int64_t from, int64_t to) {
        const auto scale = static_cast<double>(rates[tensor.group].gradient_scale);
        sum += scale * scale * squares_of_part(tensor.gradient, from, to);
      });
  sum = block_sum(sum, by_warp);
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = sum;
  }
}

__global__ __launch_bounds__(kThreads) void add_squares_kernel(double* sum,
                                                               const double* partials,
                                                               int count) {
  __shared__ double by_warp[kWarp];
  double part = 0;
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    part += partials[i];
  }
  part = block_sum(part, by_warp);
  if (threadIdx.x == 0) {
    *sum = part;
  }
}

// ---- steps

// The update of one element.
struct AdamWork {
  static constexpr bool kSecond = true;
  bool decay_in_gradient;

  __device__ __forceinline__ void operator()(float& parameter,
                                             float gradient,
                                             float& first,
                                             float& second,
                                             const Rates& rates,
                                             float root_correction,
                                             float step_size) const {
    if (decay_in_gradient) {
      gradient = fmaf(rates.weight_decay, parameter, gradient);
    } else {
      parameter *= 1.0F - rates.lr * rates.weight_decay;
    }
    first = fmaf(1.0F - rates.beta1, gradient - first, first);
    second = fmaf((1.0F - rates.beta2) * gradient, gradient, second * rates.beta2);
    const float root = sqrtf(second) / root_correction + rates.epsilon;
    parameter -= step_size * (first / root);
  }
};

struct SgdWork {
  static constexpr bool kSecond = false;
  bool nesterov;
  bool has_momentum;

  __device__ __forceinline__ void operator()(float& parameter,
                                             float gradient,
                                             float& first,
                                             float&,
                                             const Rates& rates,
                                             float,
                                             float) const {
    gradient = fmaf(rates.weight_decay, parameter, gradient);
    if (has_momentum) {
      // torch.optim.SGD starts the momentum with the gradient itself, without dampening.
      const bool is_start = rates.correction1 == 0.0F;
      first = is_start ? gradient : fmaf(rates.beta1, first, (1.0F - rates.beta2) * gradient);
      gradient = nesterov ? fmaf(rates.beta1, first, gradient) : first;
    }
    parameter -= rates.lr * gradient;
  }
};

// Four elements of each array of a tensor.
struct Group {
  float4 parameter;
  float4 gradient;
  float4 first;
  float4 second;
};

template <typename Work>
__device__ __forceinline__ void step_part(const UpdatedTensor& tensor,
                                          int64_t from,
                                          int64_t to,
                                          const Rates& rates,
                                          float factor,
                                          const Work& work) {
  const auto thread = static_cast<int64_t>(threadIdx.x);
  const bool has_first = tensor.first != nullptr;
  const float root_correction = sqrtf(rates.correction2);
  const float step_size = rates.lr / rates.correction1;

  const auto update = [&](float& parameter, float gradient, float& first, float& second) {
    work(parameter,
         gradient * rates.gradient_scale * factor,
         first,
         second,
         rates,
         root_correction,
         step_size);
  };
  const auto update_one = [&](int64_t at) {
    float parameter = tensor.parameter[at];
    float first = has_first ? tensor.first[at] : 0.0F;
    float second = Work::kSecond ? tensor.second[at] : 0.0F;
    update(parameter, tensor.gradient[at], first, second);
    tensor.parameter[at] = parameter;
    if (has_first) {
      tensor.first[at] = first;
    }
    if constexpr (Work::kSecond) {
      tensor.second[at] = second;
    }
    if (tensor.copy != nullptr) {
      tensor.copy[at] = narrow(parameter);
    }
  };

  // A part begins and ends anywhere in the tensor. Groups of four start at multiples of four:
  //
  //   from |..| body |....|....|....| tail |.| to
  //
  // Views of a flat buffer can be misaligned; they are updated one by one.
  const bool is_wide = is_aligned(tensor.parameter, sizeof(float4)) &&
                       is_aligned(tensor.gradient, sizeof(float4)) &&
                       is_aligned(tensor.first, sizeof(float4)) &&
                       (!Work::kSecond || is_aligned(tensor.second, sizeof(float4))) &&
                       is_aligned(tensor.copy, sizeof(uint2));
  const int64_t body = (from + kWide - 1) / kWide * kWide;
  const int64_t tail = to / kWide * kWide;
  if (!is_wide || body > tail) {
    for (int64_t at = from + thread; at < to; at += kThreads) {
      update_one(at);
    }
    return;
  }
  if (from + thread < body) {
    update_one(from + thread);
  }
  if (tail + thread < to) {
    update_one(tail + thread);
  }

  const auto load = [&](int64_t at) {
    Group group{};
    group.parameter = load_wide(tensor.parameter, at);
    group.gradient = load_wide(tensor.gradient, at);
    if (has_first) {
      group.first = load_wide(tensor.first, at);
    }
    if constexpr (Work::kSecond) {
      group.second = load_wide(tensor.second, at);
    }
    return group;
  };
  const auto finish = [&](int64_t at, Group& group) {
    update(group.parameter.x, group.gradient.x, group.first.x, group.second.x);
    update(group.parameter.y, group.gradient.y, group.first.y, group.second.y);
    update(group.parameter.z, group.gradient.z, group.first.z, group.second.z);
    update(group.parameter.w, group.gradient.w, group.first.w, group.second.w);
    store_wide(tensor.parameter, at, group.parameter);
    if (has_first) {
      store_wide(tensor.first, at, group.first);
    }
    if constexpr (Work::kSecond) {
      store_wide(tensor.second, at, group.second);
    }
    if (tensor.copy != nullptr) {
      *reinterpret_cast<uint2*>(tensor.copy + at) =
          make_uint2(narrow(group.parameter.x, group.parameter.y),
                     narrow(group.parameter.z, group.parameter.w));
    }
  };

  constexpr int64_t kStep = static_cast<int64_t>(kThreads) * kWide;
  int64_t at = body + thread * kWide;
  for (; at + (kAhead - 1) * kStep < tail; at += kAhead * kStep) {
    Group groups[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      groups[i] = load(at + i * kStep);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      finish(at + i * kStep, groups[i]);
    }
  }
  for (; at < tail; at += kStep) {
    Group group = load(at);
    finish(at, group);
  }
}

template <typename Work>
__global__ __launch_bounds__(kThreads) void step_kernel(const UpdatedTensor* tensors,
                                                        int count,
                                                        int64_t elements,
                                                        const Rates* rates,
                                                        Clip clip,
                                                        Work work) {
  if (skips_step(clip)) {
    return;
  }
  const float factor = clip_factor(clip);
  const int64_t start = static_cast<int64_t>(blockIdx.x) * kChunk;
  const int64_t stop = start + kChunk < elements ? start + kChunk : elements;
  for_each_part(
      tensors, count, start, stop, [&](const UpdatedTensor& tensor, int64_t from, int64_t to) {
        const Rates held = rates[tensor.group];  // a copy, which no store can change
        Work mine = work;
        if constexpr (!Work::kSecond) {
          mine.has_momentum = tensor.first != nullptr && held.beta1 != 0.0F;
        }
        step_part(tensor, from, to, held, factor, mine);
      });
}

template <typename Work>
void launch_step(const UpdatedTensor* tensors,
                 int count,
                 int64_t elements,
                 const Rates* rates,
                 const Clip& clip,
                 const Work& work,
                 const char* name,
                 Stream stream) {
  if (elements == 0) {
    return;
  }
  const auto blocks = static_cast<unsigned>(divide_up(elements, kChunk));
  step_kernel<Work><<<blocks, kThreads, 0, stream>>>(tensors, count, elements, rates, clip, work);
  check_launch(name);
}

}  // namespace

int64_t square_sum_workspace() {
  return kSquareBlocks * static_cast<int64_t>(sizeof(double));
}

void square_sum(double* sum,
                const UpdatedTensor* tensors,
                int count,
                int64_t elements,
                const Rates* rates,
                void* workspace,
                Stream stream) {
  auto* partials = static_cast<double*>(workspace);
  const int64_t max_blocks = std::min<int64_t>(kSquareBlocks, int64_t{8} * multiprocessors());
  const int64_t wanted = std::max(divide_up(elements, max_blocks), kChunk);
  const int64_t stretch = divide_up(wanted, kWide) * kWide;
  const int64_t blocks = divide_up(elements, stretch);
  if (blocks > 0) {
    square_sum_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        partials, tensors, count, elements, stretch, rates);
    check_launch("square_sum");
  }
  add_squares_kernel<<<1, kThreads, 0, stream>>>(sum, partials, static_cast<int>(blocks));
  check_launch("square_sum (second stage)");
}

void adamw_step(const UpdatedTensor* tensors,
                int count,
                int64_t elements,
                const Rates* rates,
                const Clip& clip,
                bool decay_in_gradient,
                Stream stream) {
  const AdamWork work{decay_in_gradient};
  launch_step(tensors, count, elements, rates, clip, work, "adamw_step", stream);
}

void sgd_step(const UpdatedTensor* tensors,
              int count,
              int64_t elements,
              const Rates* rates,
              const Clip& clip,
              bool nesterov,
              Stream stream) {
  const SgdWork work{nesterov, false};
  launch_step(tensors, count, elements, rates, clip, work, "sgd_step", stream);
}

}  // namespace lockstep::kernels
