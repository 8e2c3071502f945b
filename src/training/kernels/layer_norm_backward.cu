// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/column_sums.h"
#include "training/kernels/device.cuh"
#include "training/kernels/launch.h"
#include "training/kernels/layer_norm.h"

namespace lockstep::kernels {
namespace {

// A row's part of a lane, and what becomes of it: the gradient with respect to what was normalised
// is inverse * (g - mean(g) - h * mean(g * h)), where h is the normalised input and g is the
// gradient of h, output_gradient * weight.
struct BackwardPack {
  Floats slope;   // output_gradient
  Floats height;  // h
};

__device__ __forceinline__ BackwardPack widen_both(uint4 slope, uint4 input, float by, float plus) {
  BackwardPack both{widen(slope), widen(input)};
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    both.height.at[j] = fmaf(both.height.at[j], by, plus);
  }
  return both;
}

template <int kPacks>
struct Sums {
  Floats weight[kPacks];
  Floats bias[kPacks];
  Floats column[kPacks];
};

// As many as the registers hold.
template <int kPacks>
constexpr int kBackwardWarps = kPacks <= 3 ? 12 : 8;

// A warp per row, which it holds in registers, as well as its sums by column over all its rows.
// partials is [gridDim.x, 2 or 3, columns].
template <int kPacks, bool kResidual, bool kColumnSum>
__global__ __launch_bounds__(kWarp* kBackwardWarps<kPacks>,
                             1) void backward_by_warp(LayerNormBackward call,
                                                      float* partials,
                                                      int packs) {
  constexpr int kWarps = kBackwardWarps<kPacks>;
  constexpr int kParts = kColumnSum ? 3 : 2;
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  const float share = 1.0F / static_cast<float>(packs * kPack);
  __shared__ __align__(16) float by_warp[kWarps][kPacks * kWarp * kPack];
  __shared__ __align__(16) float weights[kPacks * kWarp * kPack];

  for (int pack = static_cast<int>(threadIdx.y * kWarp) + lane; pack < packs;
       pack += kWarps * kWarp) {
    store_floats(weights, pack, load_floats(call.weight, pack));
  }
  __syncthreads();

  Sums<kPacks> sums{};
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.y; row < call.rows;
       row += step) {
    uint4 slope[kPacks];
    uint4 input[kPacks];
    uint4 residual[kPacks];
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = lane + i * kWarp;
      slope[i] = input[i] = residual[i] = make_uint4(0, 0, 0, 0);
      if (pack < packs) {
        slope[i] = load_pack(call.output_gradient, row * packs + pack);
        input[i] = load_pack(call.input, row * packs + pack);
        if constexpr (kResidual) {
          residual[i] = load_pack(call.residual, row * packs + pack);
        }
      }
    }
    const float inverse = call.inverse[row];
    const float offset = -call.mean[row] * inverse;
    float plain = 0;
    float turned = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = lane + i * kWarp;
      if (pack < packs) {
        const BackwardPack both = widen_both(slope[i], input[i], inverse, offset);
        const Floats weight = load_floats(weights, pack);
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float gradient = both.slope.at[j] * weight.at[j];
          plain += gradient;
          turned = fmaf(gradient, both.height.at[j], turned);
          sums.weight[i].at[j] = fmaf(both.slope.at[j], both.height.at[j], sums.weight[i].at[j]);
          sums.bias[i].at[j] += both.slope.at[j];
        }
      }
    }
    plain = warp_sum(plain) * share;
    turned = warp_sum(turned) * share;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = lane + i * kWarp;
      if (pack < packs) {
        const BackwardPack both = widen_both(slope[i], input[i], inverse, offset);
        const Floats weight = load_floats(weights, pack);
        Floats values = widen(residual[i]);
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float gradient = fmaf(both.slope.at[j], weight.at[j], -plain);
          values.at[j] = fmaf(fmaf(-both.height.at[j], turned, gradient), inverse, values.at[j]);
        }
        const uint4 rounded = narrow(values);
        store_pack(call.input_gradient, row * packs + pack, rounded);
        if constexpr (kColumnSum) {
          add_to(sums.column[i], widen(rounded));
        }
      }
    }
  }

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

constexpr int kMostBackwardThreads = 512;
constexpr int64_t kMostBackwardColumns = 2 * kMostBackwardThreads * kPack;
constexpr int64_t kMostColumnsOfWarp = 4 * kWarp * kPack;

// A block per row, for rows that no warp can hold; a thread has the same columns of all rows.
template <int kPacks>
__global__ __launch_bounds__(kMostBackwardThreads,
                             kPacks == 1 ? 2 : 1) void backward_by_block(LayerNormBackward call,
                                                                         float* partials,
                                                                         int packs) {
  __shared__ float for_plain[2][kWarp];
  __shared__ float for_turned[2][kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int warps = threads / kWarp;
  const int lane = thread % kWarp;
  const float share = 1.0F / static_cast<float>(packs * kPack);
  Sums<kPacks> sums{};
  int turn = 0;  // so that one barrier a row is enough
  for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
    const float inverse = call.inverse[row];
    const float offset = -call.mean[row] * inverse;
    uint4 slope[kPacks];
    uint4 input[kPacks];
    uint4 residual[kPacks];
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = thread + i * threads;
      slope[i] = input[i] = residual[i] = make_uint4(0, 0, 0, 0);
      if (pack < packs) {
        slope[i] = load_pack(call.output_gradient, row * packs + pack);
        input[i] = load_pack(call.input, row * packs + pack);
        if (call.residual != nullptr) {
          residual[i] = load_pack(call.residual, row * packs + pack);
        }
      }
    }
    float plain = 0;
    float turned = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = thread + i * threads;
      if (pack < packs) {
        const BackwardPack both = widen_both(slope[i], input[i], inverse, offset);
        const Floats weight = load_floats(call.weight, pack);
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float gradient = both.slope.at[j] * weight.at[j];
          plain += gradient;
          turned = fmaf(gradient, both.height.at[j], turned);
          sums.weight[i].at[j] = fmaf(both.slope.at[j], both.height.at[j], sums.weight[i].at[j]);
          sums.bias[i].at[j] += both.slope.at[j];
        }
      }
    }
    plain = warp_sum(plain);
    turned = warp_sum(turned);
    if (lane == 0) {
      for_plain[turn][thread / kWarp] = plain;
      for_turned[turn][thread / kWarp] = turned;
    }
    __syncthreads();
    plain = warp_sum(lane < warps ? for_plain[turn][lane] : 0.0F) * share;
    turned = warp_sum(lane < warps ? for_turned[turn][lane] : 0.0F) * share;
    turn ^= 1;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = thread + i * threads;
      if (pack < packs) {
        const BackwardPack both = widen_both(slope[i], input[i], inverse, offset);
        const Floats weight = load_floats(call.weight, pack);
        Floats values = widen(residual[i]);
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float gradient = fmaf(both.slope.at[j], weight.at[j], -plain);
          values.at[j] = fmaf(fmaf(-both.height.at[j], turned, gradient), inverse, values.at[j]);
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
  const int64_t needed = packs <= kMostBackwardThreads ? packs : divide_up(packs, 2);
  return static_cast<int>(divide_up(needed, kWarp) * kWarp);
}

int64_t backward_blocks(int64_t columns) {
  const int64_t places = multiprocessors();
  if (columns <= kMostColumnsOfWarp || columns > kMostBackwardThreads * kPack) {
    return places;
  }
  return places * (2 * kMostBackwardThreads / backward_threads(columns));
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
  require(call.columns <= kMostBackwardColumns, "at most 8192 columns");
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
    if (packs <= kMostBackwardThreads) {
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
