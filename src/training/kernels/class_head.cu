// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/class_head.h"
#include "training/kernels/device.cuh"
#include "training/kernels/launch.h"

namespace lockstep::kernels {
namespace {

// The end of an image classifier: mean over pixels, and cross entropy with label smoothing. For K
// classes, scores x, target t and smoothing e:
//
//   target_prob_i = e / K + (1 - e) [i == t]
//   loss = -sum of target_prob_i * log(prob_i)
//        = log(s) + (1 - e) * (m - x_t) + e / K * sum of (m - x_i)
//   dx_i = (prob_i - target_prob_i) / (number of rows with a target)
//
// with m = max(x), s = sum of exp(x - m) and prob_i = exp(x_i - m - log(s)). The second form needs
// no probabilities and never subtracts two large numbers.
constexpr int kThreads = 256;

constexpr int kPixelsAtOnce = kThreads / kWarp;

// Images are stored pixel by pixel (NHWC), so that the 8 channels of a pack are adjacent. A warp
// processes 32 adjacent packs, 512 bytes of a pixel, of every eighth pixel. Then the sums of the
// eight warps of a block are added in order. The last index of by_warp is the lane, so there are no
// bank conflicts.
__global__ void __launch_bounds__(kThreads) pixel_mean_kernel(PixelMean call, int64_t places) {
  __shared__ float by_warp[kPixelsAtOnce][kPack][kWarp];
  const int64_t packs = call.channels / kPack;
  const int64_t place = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  Floats sum = {};
  if (place < places) {
    const int64_t first = place / packs * call.pixels * packs + place % packs;
#pragma unroll 7
    for (int64_t pixel = threadIdx.y; pixel < call.pixels; pixel += kPixelsAtOnce) {
      add_to(sum, widen(load_pack(call.input, first + pixel * packs)));
    }
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    by_warp[threadIdx.y][i][threadIdx.x] = sum.at[i];
  }
  __syncthreads();
  if (threadIdx.y > 0 || place >= places) {
    return;
  }
  const float share = 1.0F / static_cast<float>(call.pixels);
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
#pragma unroll
    for (int warp = 1; warp < kPixelsAtOnce; ++warp) {
      sum.at[i] += by_warp[warp][i][threadIdx.x];
    }
    sum.at[i] *= share;
  }
  store_pack(call.output, place, narrow(sum));
}

__global__ void __launch_bounds__(kThreads)
    pixel_mean_backward_kernel(PixelMeanBackward call, int64_t places) {
  const int64_t packs = call.channels / kPack;
  const float share = 1.0F / static_cast<float>(call.pixels);
  for (int64_t place = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; place < places;
       place += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int64_t image = place / (packs * call.pixels);
    Floats values = widen(load_pack(call.gradient, image * packs + place % packs));
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      values.at[i] *= share;
    }
    store_pack(call.output, place, narrow(values));
  }
}

__device__ float nan_value() {
  return __int_as_float(0x7FC00000);
}

// A block per row. The row stays in the cache from one pass to the next.
__global__ void __launch_bounds__(kThreads) class_entropy_kernel(ClassEntropy call) {
  __shared__ float maxima[kWarp];
  __shared__ float sums_exp[kWarp];
  __shared__ float sums_below[kWarp];
  const int64_t row = blockIdx.x;
  const Bf16* scores = call.scores + row * call.classes;
  const int64_t target = call.targets[row];

  float row_max = -INFINITY;
  for (int64_t i = threadIdx.x; i < call.classes; i += kThreads) {
    row_max = fmaxf(row_max, widen(scores[i]));
  }
  row_max = warp_max(row_max);
  if (threadIdx.x % kWarp == 0) {
    maxima[threadIdx.x / kWarp] = row_max;
  }
  __syncthreads();
  row_max =
      warp_max(threadIdx.x % kWarp < kThreads / kWarp ? maxima[threadIdx.x % kWarp] : -INFINITY);

  float sum_exp = 0;
  float sum_below = 0;
  for (int64_t i = threadIdx.x; i < call.classes; i += kThreads) {
    const float score = widen(scores[i]);
    sum_exp += expf(score - row_max);
    sum_below += row_max - score;
  }
  sum_exp = block_sum(sum_exp, sums_exp);
  sum_below = block_sum(sum_below, sums_below);
  if (threadIdx.x > 0) {
    return;
  }
  // The only value of the row that backward needs: prob_i = exp(x_i - log_sum_exp).
  const float log_sum = logf(sum_exp);
  call.log_sum_exp[row] = row_max + log_sum;
  float loss = 0;
  if (target >= 0 && target < call.classes) {
    loss = log_sum + (1.0F - call.smoothing) * (row_max - widen(scores[target]));
    if (call.smoothing > 0) {  // sum_below is infinite if a score is -inf, and 0 * inf is NaN
      loss += call.smoothing * (sum_below / static_cast<float>(call.classes));
    }
  } else if (target != kNoTarget) {
    loss = nan_value();
  }
  call.losses[row] = loss;
}

// One block adds up all rows, so that the order of additions and thus the sum are always the same.
__global__ void __launch_bounds__(kThreads) class_entropy_mean_kernel(ClassEntropy call) {
  __shared__ float for_sum[kWarp];
  __shared__ float for_counted[kWarp];
  float sum = 0;
  float counted = 0;
  for (int64_t row = threadIdx.x; row < call.rows; row += kThreads) {
    sum += call.losses[row];
    counted += call.targets[row] == kNoTarget ? 0.0F : 1.0F;
  }
  sum = block_sum(sum, for_sum);
  counted = block_sum(counted, for_counted);
  if (threadIdx.x == 0) {
    *call.loss = sum / counted;  // NaN if no row has a target, as in libtorch
    *call.share = 1.0F / counted;
  }
}

__global__ void __launch_bounds__(kThreads)
    class_entropy_backward_kernel(ClassEntropyBackward call) {
  const int64_t row = blockIdx.x;
  const int64_t target = call.targets[row];
  const bool is_counted = target != kNoTarget;
  const bool is_class = target >= 0 && target < call.classes;
  const float factor = is_class ? *call.share * *call.factor : nan_value();
  const float log_sum_exp = call.log_sum_exp[row];
  const float uniform = call.smoothing / static_cast<float>(call.classes);
  for (int64_t i = threadIdx.x; i < call.classes; i += kThreads) {
    const float prob = expf(widen(call.scores[row * call.classes + i]) - log_sum_exp);
    const float target_prob = uniform + (i == target ? 1.0F - call.smoothing : 0.0F);
    call.gradient[row * call.classes + i] =
        narrow(is_counted ? (prob - target_prob) * factor : 0.0F);
  }
}

unsigned blocks_for(int64_t places) {
  constexpr int64_t kBlocksPerMultiprocessor = 8;
  return static_cast<unsigned>(
      std::min(divide_up(places, kThreads), kBlocksPerMultiprocessor * multiprocessors()));
}

}  // namespace

void pixel_mean(const PixelMean& call, Stream stream) {
  require(call.channels > 0 && call.channels % kPack == 0, "channels that 8 divides");
  require(call.pixels > 0, "pixels");
  const int64_t places = call.images * call.channels / kPack;
  if (places == 0) {
    return;
  }
  const auto blocks = static_cast<unsigned>(divide_up(places, kWarp));
  pixel_mean_kernel<<<blocks, dim3(kWarp, kPixelsAtOnce), 0, stream>>>(call, places);
  check_launch("pixel_mean");
}

void pixel_mean_backward(const PixelMeanBackward& call, Stream stream) {
  require(call.channels > 0 && call.channels % kPack == 0, "channels that 8 divides");
  require(call.pixels > 0, "pixels");
  const int64_t places = call.images * call.pixels * call.channels / kPack;
  if (places == 0) {
    return;
  }
  pixel_mean_backward_kernel<<<blocks_for(places), kThreads, 0, stream>>>(call, places);
  check_launch("pixel_mean_backward");
}

void class_entropy(const ClassEntropy& call, Stream stream) {
  require(call.classes > 0, "classes");
  if (call.rows > 0) {
    class_entropy_kernel<<<static_cast<unsigned>(call.rows), kThreads, 0, stream>>>(call);
    check_launch("class_entropy");
  }
  class_entropy_mean_kernel<<<1, kThreads, 0, stream>>>(call);
  check_launch("class_entropy_mean");
}

void class_entropy_backward(const ClassEntropyBackward& call, Stream stream) {
  require(call.classes > 0, "classes");
  if (call.rows == 0) {
    return;
  }
  class_entropy_backward_kernel<<<static_cast<unsigned>(call.rows), kThreads, 0, stream>>>(call);
  check_launch("class_entropy_backward");
}

}  // namespace lockstep::kernels
