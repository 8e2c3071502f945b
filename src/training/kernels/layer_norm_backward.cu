// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/column_sums.h"
#include "training/kernels/device.cuh"
#include "training/kernels/launch.h"
#include "training/kernels/layer_norm.h"

namespace lockstep::kernels {
namespace {

// Backward of y = x_hat * gamma + beta with x_hat = (x - mean) * rstd, per row of N columns
// (Ba, Kiros, Hinton 2016; symbols as in PyTorch's layer_norm_kernel.cu):
//
//   g      = dy * gamma
//   dx     = rstd * (g - mean(g) - x_hat * mean(g * x_hat))      [+ residual]
//   dgamma = sum over rows of dy * x_hat
//   dbeta  = sum over rows of dy
//
// mean() is over the N columns of a row, so a row is needed twice: first for the two means, then
// for dx. It is read from memory once and stays in registers in between, as the 16-bit words that
// were loaded: widened to float32 it would need twice the registers. x_hat is computed twice
// instead.
//
// dgamma and dbeta are sums down the columns, across rows of different warps and blocks. Every
// thread has the same columns in all its rows and adds them up in registers; a block adds up its
// threads and writes one row of `partials`; add_partials() adds up the blocks. Each of these sums
// has a fixed order: no atomics, so the same inputs give the same bits.

// The elements of a lane in one pack.
struct DyXHat {
  Floats dy;
  Floats x_hat;
};

// x_hat = input * rstd + shift with shift = -mean * rstd: one fused multiply-add per element.
__device__ __forceinline__ DyXHat widen_dy_x_hat(uint4 dy, uint4 input, float rstd, float shift) {
  DyXHat wide{widen(dy), widen(input)};
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    wide.x_hat.at[j] = fmaf(wide.x_hat.at[j], rstd, shift);
  }
  return wide;
}

template <int kPacks>
struct Sums {
  Floats weight[kPacks];
  Floats bias[kPacks];
  Floats column[kPacks];
};

// One block per multiprocessor (the second launch bound). A lane holds 3 x kPacks packs of sums,
// which are 24 x kPacks registers, and up to 12 x kPacks of the row. A multiprocessor has 65536
// registers: at most 168 for each thread of 12 warps, and 255 for each thread of 8. Four packs hold
// 144 before anything is computed.
template <int kPacks>
constexpr int kBackwardWarps = kPacks <= 3 ? 12 : 8;

// A warp per row, which it holds in registers, as well as its sums by column over all its rows. The
// means need only shuffles within the warp: the loop over rows has no barrier. gamma is read for
// every row and is therefore kept in shared memory. partials is [gridDim.x, 2 or 3, columns]:
// dgamma, dbeta and, with kColumnSum, the sum of dx, which is the bias gradient of the layer
// before.
template <int kPacks, bool kResidual, bool kColumnSum>
__global__ __launch_bounds__(kWarp* kBackwardWarps<kPacks>,
                             1) void backward_by_warp(LayerNormBackward call,
                                                      float* partials,
                                                      int packs) {
  constexpr int kWarps = kBackwardWarps<kPacks>;
  constexpr int kParts = kColumnSum ? 3 : 2;
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  const float inv_columns = 1.0F / static_cast<float>(packs * kPack);
  __shared__ __align__(16) float by_warp[kWarps][kPacks * kWarp * kPack];
  __shared__ __align__(16) float weights[kPacks * kWarp * kPack];
  static_assert(sizeof(by_warp) + sizeof(weights) <= 48 * 1024, "static shared memory of a block");

  for (int pack = static_cast<int>(threadIdx.y * kWarp) + lane; pack < packs;
       pack += kWarps * kWarp) {
    store_floats(weights, pack, load_floats(call.weight, pack));
  }
  __syncthreads();

  Sums<kPacks> sums{};
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.y; row < call.rows;
       row += step) {
    uint4 dy[kPacks];
    uint4 input[kPacks];
    uint4 residual[kPacks];
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = lane + i * kWarp;
      dy[i] = input[i] = residual[i] = make_uint4(0, 0, 0, 0);
      if (pack < packs) {
        dy[i] = load_pack(call.output_gradient, row * packs + pack);
        input[i] = load_pack(call.input, row * packs + pack);
        if constexpr (kResidual) {
          residual[i] = load_pack(call.residual, row * packs + pack);
        }
      }
    }
    const float rstd = call.rstd[row];
    const float shift = -call.mean[row] * rstd;
    float sum_g = 0;
    float sum_g_x_hat = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = lane + i * kWarp;
      if (pack < packs) {
        const DyXHat wide = widen_dy_x_hat(dy[i], input[i], rstd, shift);
        const Floats weight = load_floats(weights, pack);
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float g = wide.dy.at[j] * weight.at[j];
          sum_g += g;
          sum_g_x_hat = fmaf(g, wide.x_hat.at[j], sum_g_x_hat);
          sums.weight[i].at[j] = fmaf(wide.dy.at[j], wide.x_hat.at[j], sums.weight[i].at[j]);
          sums.bias[i].at[j] += wide.dy.at[j];
        }
      }
    }
    const float mean_g = warp_sum(sum_g) * inv_columns;
    const float mean_g_x_hat = warp_sum(sum_g_x_hat) * inv_columns;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = lane + i * kWarp;
      if (pack < packs) {
        const DyXHat wide = widen_dy_x_hat(dy[i], input[i], rstd, shift);
        const Floats weight = load_floats(weights, pack);
        Floats values = widen(residual[i]);
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float centred = fmaf(wide.dy.at[j], weight.at[j], -mean_g);
          values.at[j] = fmaf(fmaf(-wide.x_hat.at[j], mean_g_x_hat, centred), rstd, values.at[j]);
        }
        // The sum is that of the stored values, as if a later kernel had added up the output.
        const uint4 rounded = narrow(values);
        store_pack(call.input_gradient, row * packs + pack, rounded);
        if constexpr (kColumnSum) {
          add_to(sums.column[i], widen(rounded));
        }
      }
    }
  }

  // The warps of a block are added up in the order of warps, one part after the other: by_warp has
  // room for one part only.
  const int columns = packs * kPack;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const Floats* mine = part == 0 ? sums.weight : part == 1 ? sums.bias : sums.column;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      store_floats(by_warp[threadIdx.y], lane + i * kWarp, mine[i]);
    }
    __syncthreads();
    float* place = partials + (static_cast<int64_t>(blockIdx.x) * kParts + part) * columns;
    for (int column = static_cast<int>(threadIdx.y * kWarp) + lane; column < columns;
         column += kWarps * kWarp) {
      float total = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
        total += by_warp[warp][column];
      }
      place[column] = total;
    }
    __syncthreads();
  }
}

constexpr int kMaxBackwardThreads = 512;
constexpr int64_t kMaxBackwardColumns = 2 * kMaxBackwardThreads * kPack;
constexpr int64_t kMaxColumnsOfWarp = 4 * kWarp * kPack;
static_assert(kMaxBackwardColumns == 8192, "the error message of layer_norm_backward()");
static_assert(kMaxBackwardThreads / kWarp <= kWarp, "a warp adds up one sum per warp of the block");

// A block per row, for rows that do not fit into a warp; a thread has the same columns in all rows.
template <int kPacks>
__global__ __launch_bounds__(kMaxBackwardThreads,
                             kPacks == 1 ? 2 : 1) void backward_by_block(LayerNormBackward call,
                                                                         float* partials,
                                                                         int packs) {
  __shared__ float sums_g[2][kWarp];
  __shared__ float sums_g_x_hat[2][kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int warps = threads / kWarp;
  const int lane = thread % kWarp;
  const float inv_columns = 1.0F / static_cast<float>(packs * kPack);
  Sums<kPacks> sums{};
  // Which half of sums_g and sums_g_x_hat a row uses. A fast warp may already write the sums of the
  // next row while a slow one still reads those of this row; with two halves, one barrier per row
  // is enough: the barrier of the row in between precedes the next write to the same half.
  int turn = 0;
  for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
    const float rstd = call.rstd[row];
    const float shift = -call.mean[row] * rstd;
    uint4 dy[kPacks];
    uint4 input[kPacks];
    uint4 residual[kPacks];
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = thread + i * threads;
      dy[i] = input[i] = residual[i] = make_uint4(0, 0, 0, 0);
      if (pack < packs) {
        dy[i] = load_pack(call.output_gradient, row * packs + pack);
        input[i] = load_pack(call.input, row * packs + pack);
        if (call.residual != nullptr) {
          residual[i] = load_pack(call.residual, row * packs + pack);
        }
      }
    }
    float sum_g = 0;
    float sum_g_x_hat = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = thread + i * threads;
      if (pack < packs) {
        const DyXHat wide = widen_dy_x_hat(dy[i], input[i], rstd, shift);
        const Floats weight = load_floats(call.weight, pack);
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float g = wide.dy.at[j] * weight.at[j];
          sum_g += g;
          sum_g_x_hat = fmaf(g, wide.x_hat.at[j], sum_g_x_hat);
          sums.weight[i].at[j] = fmaf(wide.dy.at[j], wide.x_hat.at[j], sums.weight[i].at[j]);
          sums.bias[i].at[j] += wide.dy.at[j];
        }
      }
    }
    sum_g = warp_sum(sum_g);
    sum_g_x_hat = warp_sum(sum_g_x_hat);
    if (lane == 0) {
      sums_g[turn][thread / kWarp] = sum_g;
      sums_g_x_hat[turn][thread / kWarp] = sum_g_x_hat;
    }
    __syncthreads();
    const float mean_g = warp_sum(lane < warps ? sums_g[turn][lane] : 0.0F) * inv_columns;
    const float mean_g_x_hat =
        warp_sum(lane < warps ? sums_g_x_hat[turn][lane] : 0.0F) * inv_columns;
    turn ^= 1;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = thread + i * threads;
      if (pack < packs) {
        const DyXHat wide = widen_dy_x_hat(dy[i], input[i], rstd, shift);
        const Floats weight = load_floats(call.weight, pack);
        Floats values = widen(residual[i]);
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float centred = fmaf(wide.dy.at[j], weight.at[j], -mean_g);
          values.at[j] = fmaf(fmaf(-wide.x_hat.at[j], mean_g_x_hat, centred), rstd, values.at[j]);
        }
        const uint4 rounded = narrow(values);
        store_pack(call.input_gradient, row * packs + pack, rounded);
        add_to(sums.column[i], widen(rounded));
      }
    }
  }
  const int columns = packs * kPack;
  float* place = partials + static_cast<int64_t>(blockIdx.x) * 3 * columns;
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int pack = thread + i * threads;
    if (pack < packs) {
      store_floats(place, pack, sums.weight[i]);
      store_floats(place + columns, pack, sums.bias[i]);
      store_floats(place + 2 * columns, pack, sums.column[i]);
    }
  }
}

int backward_threads(int64_t columns) {
  const int64_t packs = columns / kPack;
  const int64_t needed = packs <= kMaxBackwardThreads ? packs : divide_up(packs, 2);
  return static_cast<int>(divide_up(needed, kWarp) * kWarp);
}

int64_t backward_blocks(int64_t columns) {
  const int64_t places = multiprocessors();
  // Must match the launch bounds. One block per multiprocessor if a warp holds a row, or if a
  // thread has two packs; else as many blocks as have 1024 threads in total.
  if (columns <= kMaxColumnsOfWarp || columns > kMaxBackwardThreads * kPack) {
    return places;
  }
  return places * (2 * kMaxBackwardThreads / backward_threads(columns));
}

template <int kPacks>
void launch_backward_by_warp(const LayerNormBackward& call, int64_t blocks, Stream stream) {
  const auto grid = static_cast<unsigned>(blocks);
  const dim3 block(kWarp, kBackwardWarps<kPacks>);
  const int packs = static_cast<int>(call.columns / kPack);
  auto* partials = static_cast<float*>(call.workspace);
  if (call.residual != nullptr && call.column_sum != nullptr) {
    backward_by_warp<kPacks, true, true><<<grid, block, 0, stream>>>(call, partials, packs);
  } else if (call.residual != nullptr) {
    backward_by_warp<kPacks, true, false><<<grid, block, 0, stream>>>(call, partials, packs);
  } else if (call.column_sum != nullptr) {
    backward_by_warp<kPacks, false, true><<<grid, block, 0, stream>>>(call, partials, packs);
  } else {
    backward_by_warp<kPacks, false, false><<<grid, block, 0, stream>>>(call, partials, packs);
  }
}

}  // namespace

void layer_norm_backward(const LayerNormBackward& call, Stream stream) {
  require(call.columns > 0 && call.columns % kPack == 0, "a number of columns that 8 divides");
  require(call.columns <= kMaxBackwardColumns, "at most 8192 columns");
  const int64_t blocks = backward_blocks(call.columns);
  const auto packs = static_cast<int>(call.columns / kPack);
  auto* partials = static_cast<float*>(call.workspace);
  int64_t parts = call.column_sum != nullptr ? 3 : 2;
  const int64_t lane_packs = divide_up(packs, kWarp);
  if (lane_packs == 1) {
    launch_backward_by_warp<1>(call, blocks, stream);
  } else if (lane_packs == 2) {
    launch_backward_by_warp<2>(call, blocks, stream);
  } else if (lane_packs == 3) {
    launch_backward_by_warp<3>(call, blocks, stream);
  } else if (lane_packs == 4) {
    launch_backward_by_warp<4>(call, blocks, stream);
  } else {
    const auto grid = static_cast<unsigned>(blocks);
    const int threads = backward_threads(call.columns);
    if (packs <= kMaxBackwardThreads) {
      backward_by_block<1><<<grid, threads, 0, stream>>>(call, partials, packs);
    } else {
      backward_by_block<2><<<grid, threads, 0, stream>>>(call, partials, packs);
    }
    parts = 3;
  }
  check_launch("layer_norm_backward");
  add_partials({.parts = {call.weight_gradient, call.bias_gradient, call.column_sum},
                .columns = call.columns},
               partials,
               blocks,
               parts * call.columns,
               stream);
}

int64_t layer_norm_workspace(int64_t columns) {
  return backward_blocks(columns) * 3 * columns * static_cast<int64_t>(sizeof(float));
}

}  // namespace lockstep::kernels
