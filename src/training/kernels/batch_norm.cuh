// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/kernels/batch_norm.h"
#include "training/kernels/device.cuh"
#include "training/kernels/launch.h"

// Batch norm over a matrix [rows, channels], where a row is a pixel (NHWC). Per channel:
//
//   x_hat = (x - mean) * rstd            mean and variance over all rows
//   y     = ReLU(x_hat * weight + bias)
//
// Backward, where dy is the gradient of the input of ReLU, and sums are over all n rows:
//
//   dweight = sum(dy * x_hat)
//   dbias   = sum(dy)
//   dx      = weight * rstd * (dy - dbias / n - x_hat * dweight / n)
//           = factors[0] * dy + factors[1] * x + factors[2]
//
// Each direction therefore needs two kernels: one that computes the sums over all rows, and one
// that computes the result element by element with the constants of the channel.
//
// Division of the work: a block processes 64 channels, which are 128 bytes of a row. A thread
// processes eight of them (one load of 16 bytes) in every (32 * gridDim.y)-th row.
//
//   blockIdx.x  which 64 channels          threadIdx.x  which 8 of them
//   blockIdx.y  which groups of 32 rows    threadIdx.y  which row of a group
namespace lockstep::kernels {

constexpr int kNormPacks = static_cast<int>(kNormChannels) / kPack;  // packs per block, along x
constexpr int kNormRows = 32;  // rows that a block processes at a time, along y
constexpr int kNormThreads = kNormPacks * kNormRows;
constexpr int kNormWarps = kNormThreads / kWarp;
constexpr int kMaxNormBlocks = 1024;  // maximum number of blocks for the same channels
constexpr int kMaxNormSums = 3;
constexpr unsigned kAhead = 8;  // independent loads in flight per thread

// blockIdx.x: which 64 channels; blockIdx.y: which rows.
inline dim3 norm_grid(int64_t rows, int64_t channels, int blocks_per_multiprocessor) {
  const int64_t chunks = channels / kNormChannels;
  const int64_t wanted = divide_up(multiprocessors() * blocks_per_multiprocessor, chunks);
  const int64_t useful = divide_up(rows, 2 * kNormRows);
  int64_t blocks = wanted < useful ? wanted : useful;
  blocks = blocks < kMaxNormBlocks ? blocks : kMaxNormBlocks;
  return dim3(static_cast<unsigned>(chunks), static_cast<unsigned>(blocks));
}

__device__ __forceinline__ int64_t norm_pack() {
  return static_cast<int64_t>(blockIdx.x) * kNormPacks + threadIdx.x;
}

// The rows of this thread. Kernels that only compute sums process them from the last to the first,
// because the values that the previous kernel wrote last are still in the L2 cache.
struct NormRows {
  int64_t first;
  int64_t step;
};

__device__ __forceinline__ NormRows norm_rows() {
  return {static_cast<int64_t>(blockIdx.y) * kNormRows + threadIdx.y,
          static_cast<int64_t>(gridDim.y) * kNormRows};
}

// Computes sums over all rows of `kSums` values for each of the eight channels of each thread.
// Returns true in the last block of these channels to finish, where `total` [kSums][64] contains
// the sums.
//
// Blocks of a grid cannot wait for each other. Every block writes its sums to the workspace and
// increments a counter. The block that reaches the final count adds up the sums of all. The fence
// before the count makes the sums of a block visible before its count, and the fence after it keeps
// the last block from reading too early (the pattern of threadFenceReduction in the CUDA samples).
// Which block is last varies, but the order of additions is fixed: the same inputs give the same
// bits.
//
// workspace:  counters, kNormCounters bytes | partial sums [gridDim.x][gridDim.y][kSums][64]
template <int kSums>
__device__ __forceinline__ bool sum_over_rows(Floats (&sums)[kSums],
                                              double (*total)[kNormChannels],
                                              void* workspace) {
  __shared__ float by_warp[kNormWarps][kSums][kNormChannels];
  __shared__ bool is_last;
  const int thread = static_cast<int>(threadIdx.y * kNormPacks + threadIdx.x);
  const int warp = thread / kWarp;
#pragma unroll
  for (int sum = 0; sum < kSums; ++sum) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      float value = sums[sum].at[i];
      for (int offset = kNormPacks; offset < kWarp; offset *= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFU, value, offset);
      }
      if (thread % kWarp < kNormPacks) {
        by_warp[warp][sum][threadIdx.x * kPack + i] = value;
      }
    }
  }
  __syncthreads();
  auto* counters = static_cast<unsigned*>(workspace);
  auto* partial = reinterpret_cast<float*>(static_cast<char*>(workspace) + kNormCounters) +
                  static_cast<int64_t>(blockIdx.x) * gridDim.y * (kSums * kNormChannels);
  constexpr int kValues = kSums * static_cast<int>(kNormChannels);
  for (int i = thread; i < kValues; i += kNormThreads) {
    float value = 0;
    for (int each = 0; each < kNormWarps; ++each) {
      value += (&by_warp[each][0][0])[i];
    }
    partial[static_cast<int64_t>(blockIdx.y) * kValues + i] = value;
  }
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    // atomicInc wraps to 0 after the last block, so that the counters are zero for the next call.
    is_last = atomicInc(&counters[blockIdx.x], gridDim.y - 1) == gridDim.y - 1;
  }
  __syncthreads();
  if (!is_last) {
    return false;
  }
  __threadfence();
  // All threads read the partial sums, four adjacent values each, and add up in float64: there can
  // be 1024 blocks, and the variance is a difference of such sums. Then one thread has each value.
  // __ldcg bypasses the L1 cache, which is not coherent between multiprocessors.
  constexpr int kQuads = kValues / 4;
  constexpr int kParts = kNormThreads / kQuads;
  __shared__ double by_part[kParts][kValues];
  const int quad = thread % kQuads;
  const auto part = static_cast<unsigned>(thread / kQuads);
  if (part < kParts) {
    double sum[4] = {};
    const auto* quads = reinterpret_cast<const float4*>(partial);
    for (unsigned first = part; first < gridDim.y; first += kAhead * kParts) {
      float4 loaded[kAhead];
#pragma unroll
      for (unsigned i = 0; i < kAhead; ++i) {
        const unsigned block = first + i * kParts;
        loaded[i] = block < gridDim.y ? __ldcg(&quads[static_cast<int64_t>(block) * kQuads + quad])
                                      : make_float4(0, 0, 0, 0);
      }
#pragma unroll
      for (unsigned i = 0; i < kAhead; ++i) {
        sum[0] += loaded[i].x;
        sum[1] += loaded[i].y;
        sum[2] += loaded[i].z;
        sum[3] += loaded[i].w;
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      by_part[part][4 * quad + i] = sum[i];
    }
  }
  __syncthreads();
  for (int i = thread; i < kValues; i += kNormThreads) {
    double value = 0;
    for (int each = 0; each < kParts; ++each) {
      value += by_part[each][i];
    }
    (&total[0][0])[i] = value;
  }
  __syncthreads();
  return true;
}

// Gradients of weight and bias of a channel, and the factors, from sum(dy) and sum(dy * (x -
// mean)).
__device__ __forceinline__ void finish_norm(const NormBack& norm,
                                            int64_t channel,
                                            int64_t channels,
                                            double rows,
                                            double sum_dy,
                                            double sum_dy_centred) {
  const float rstd = norm.values.rstd[channel];
  const float mean = norm.values.mean[channel];
  const double dweight = sum_dy_centred * static_cast<double>(rstd);
  norm.weight_gradient[channel] = static_cast<float>(dweight);
  norm.bias_gradient[channel] = static_cast<float>(sum_dy);
  const auto scale = static_cast<double>(norm.values.scale[channel]);
  const double projection = dweight / rows * static_cast<double>(rstd);
  norm.factors[channel] = static_cast<float>(scale);
  norm.factors[channels + channel] = static_cast<float>(-scale * projection);
  norm.factors[2 * channels + channel] =
      static_cast<float>(scale * (projection * static_cast<double>(mean) - sum_dy / rows));
}

struct NormFactors {
  Floats gradient;
  Floats input;
  Floats rest;
};

__device__ __forceinline__ NormFactors load_factors(const float* factors,
                                                    int64_t channels,
                                                    int64_t pack) {
  return {load_floats(factors, pack),
          load_floats(factors + channels, pack),
          load_floats(factors + 2 * channels, pack)};
}

// dx of eight channels.
__device__ __forceinline__ uint4 normalised_gradient(const NormFactors& factors,
                                                     const Floats& gradient,
                                                     const Floats& input) {
  Floats result;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    result.at[i] = fmaf(factors.gradient.at[i],
                        gradient.at[i],
                        fmaf(factors.input.at[i], input.at[i], factors.rest.at[i]));
  }
  return narrow(result);
}

// batch_norm_backward() for a batch norm that is followed by pooling.
void pooled_norm_backward(const NormBackward& call, Stream stream);

}  // namespace lockstep::kernels
