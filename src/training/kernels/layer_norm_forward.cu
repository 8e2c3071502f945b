// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/device.cuh"
#include "training/kernels/fp8.cuh"
#include "training/kernels/launch.h"
#include "training/kernels/layer_norm.h"

namespace lockstep::kernels {
namespace {

// y = (x - mean) * rstd * weight + bias with x = input + branch, per row of N columns:
//
//   mean = sum(x) / N
//   rstd = 1 / sqrt(sum((x - mean)^2) / N + epsilon)
//
// The variance is computed from the differences, in a second pass over the registers, and not as
// E[x^2] - mean^2: that loses all digits if the mean is much larger than the deviation.
//
// A warp holds a row of up to 2048 columns: a lane has kPacks packs of 8 columns, lane + 32 i. Sums
// then need only shuffles and no barrier. A longer row needs a block and several reads.
constexpr int kForwardWarps = 8;
constexpr int kForwardBlocks = 2;  // per multiprocessor
constexpr int kFallbackThreads = 256;

template <int kPacks>
struct RawRow {
  uint4 input[kPacks];
  uint4 branch[kPacks];
};

template <int kPacks, bool kBranch>
__device__ __forceinline__ void load_row(
    RawRow<kPacks>& raw, const LayerNormForward& call, int64_t row, int packs, int lane) {
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int pack = lane + i * kWarp;
    raw.input[i] = make_uint4(0, 0, 0, 0);
    raw.branch[i] = make_uint4(0, 0, 0, 0);
    if (pack < packs) {
      raw.input[i] = load_pack(call.input, row * packs + pack);
      if constexpr (kBranch) {
        raw.branch[i] = load_pack(call.branch, row * packs + pack);
      }
    }
  }
}

__device__ __forceinline__ void store_output(const LayerNormForward& call,
                                             int64_t place,
                                             const Floats& values,
                                             float scale) {
  if (call.output != nullptr) {
    store_pack(call.output, place, narrow(values));
  }
  if (call.fp8 != nullptr) {
    store_fp8(call.fp8, place, narrow_to_fp8<Fp8Type::E4m3>(values, scale));
  }
}

// A warp per row, which it holds in registers. With up to 3 packs per lane (kHold) there is room to
// load the next row while this one is computed, and to keep weight and bias for all rows. Wider
// rows need these registers themselves, so the next row is loaded at the end, and weight and bias
// for every row.
template <int kPacks, bool kBranch>
__global__ __launch_bounds__(kWarp* kForwardWarps,
                             kForwardBlocks) void forward_by_warp(LayerNormForward call,
                                                                  int packs) {
  constexpr bool kHold = kPacks <= 3;
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kForwardWarps;
  const float inv_columns = 1.0F / static_cast<float>(packs * kPack);
  int64_t row = static_cast<int64_t>(blockIdx.x) * kForwardWarps + threadIdx.y;
  if (row >= call.rows) {
    return;
  }

  const float scale = call.fp8 != nullptr ? call.scale->scale : 1.0F;
  float amax = 0;
  Floats weight[kHold ? kPacks : 1];
  Floats bias[kHold ? kPacks : 1];
  RawRow<kPacks> raw;
  load_row<kPacks, kBranch>(raw, call, row, packs, lane);
  if constexpr (kHold) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = lane + i * kWarp;
      weight[i] = pack < packs ? load_floats(call.weight, pack) : Floats{};
      bias[i] = pack < packs ? load_floats(call.bias, pack) : Floats{};
    }
  }

  for (; row < call.rows; row += step) {
    Floats values[kPacks];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      values[i] = widen(raw.input[i]);
      if constexpr (kBranch) {
        add_to(values[i], widen(raw.branch[i]));
        // Backward uses the stored sum, so the stored sum is normalized.
        const uint4 rounded = narrow(values[i]);
        values[i] = widen(rounded);
        const int pack = lane + i * kWarp;
        if (call.sum != nullptr && pack < packs) {
          store_pack(call.sum, row * packs + pack, rounded);
        }
      }
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        sum += values[i].at[j];
      }
    }
    if (kHold && row + step < call.rows) {
      load_row<kPacks, kBranch>(raw, call, row + step, packs, lane);
    }
    const float mean = warp_sum(sum) * inv_columns;
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (lane + i * kWarp < packs) {
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          const float centred = values[i].at[j] - mean;
          squares = fmaf(centred, centred, squares);
        }
      }
    }
    const float rstd = rsqrtf(fmaf(warp_sum(squares), inv_columns, call.epsilon));
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int pack = lane + i * kWarp;
      if (pack < packs) {
        const Floats gamma = kHold ? weight[kHold ? i : 0] : load_floats(call.weight, pack);
        const Floats beta = kHold ? bias[kHold ? i : 0] : load_floats(call.bias, pack);
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          values[i].at[j] = fmaf((values[i].at[j] - mean) * rstd, gamma.at[j], beta.at[j]);
        }
        store_output(call, row * packs + pack, values[i], scale);
        amax = largest(amax, values[i]);
      }
    }
    if (lane == 0) {
      call.mean[row] = mean;
      call.rstd[row] = rstd;
    }
    if (!kHold && row + step < call.rows) {
      load_row<kPacks, kBranch>(raw, call, row + step, packs, lane);
    }
  }
  if (call.history != nullptr) {
    record(call.history, amax);
  }
}

// The values to normalize, for rows that do not fit into a warp. They are read each time, mostly
// from a cache.
__device__ __forceinline__ Floats normalised_input(const LayerNormForward& call, int64_t place) {
  Floats values = widen(load_pack(call.input, place));
  if (call.branch != nullptr) {
    add_to(values, widen(load_pack(call.branch, place)));
    values = widen(narrow(values));
  }
  return values;
}

// A block per row, of any length.
__global__ __launch_bounds__(kFallbackThreads) void forward_by_block(LayerNormForward call,
                                                                     int packs) {
  __shared__ float for_mean[kWarp];
  __shared__ float for_squares[kWarp];
  const float inv_columns = 1.0F / static_cast<float>(packs * kPack);
  const int thread = static_cast<int>(threadIdx.x);
  const float scale = call.fp8 != nullptr ? call.scale->scale : 1.0F;
  float amax = 0;
  for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
    const int64_t start = row * packs;
    float sum = 0;
    for (int pack = thread; pack < packs; pack += kFallbackThreads) {
      const Floats values = normalised_input(call, start + pack);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        sum += values.at[j];
      }
    }
    const float mean = block_sum(sum, for_mean) * inv_columns;
    float squares = 0;
    for (int pack = thread; pack < packs; pack += kFallbackThreads) {
      const Floats values = normalised_input(call, start + pack);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        const float centred = values.at[j] - mean;
        squares = fmaf(centred, centred, squares);
      }
    }
    const float rstd = rsqrtf(fmaf(block_sum(squares, for_squares), inv_columns, call.epsilon));
    for (int pack = thread; pack < packs; pack += kFallbackThreads) {
      Floats values = normalised_input(call, start + pack);
      // Last, because `sum` can be `input`.
      if (call.sum != nullptr) {
        store_pack(call.sum, start + pack, narrow(values));
      }
      const Floats weight = load_floats(call.weight, pack);
      const Floats bias = load_floats(call.bias, pack);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        values.at[j] = fmaf((values.at[j] - mean) * rstd, weight.at[j], bias.at[j]);
      }
      store_output(call, start + pack, values, scale);
      amax = largest(amax, values);
    }
    if (thread == 0) {
      call.mean[row] = mean;
      call.rstd[row] = rstd;
    }
    // No barrier is needed here: between two uses of one array of sums there is a barrier of the
    // other.
  }
  if (call.history != nullptr) {
    record(call.history, amax);
  }
}

template <int kPacks>
void launch_forward_by_warp(const LayerNormForward& call, int packs, Stream stream) {
  const int64_t resident = static_cast<int64_t>(multiprocessors()) * kForwardBlocks;
  const auto blocks =
      static_cast<unsigned>(std::min(resident, divide_up(call.rows, kForwardWarps)));
  const dim3 block(kWarp, kForwardWarps);
  if (call.branch != nullptr) {
    forward_by_warp<kPacks, true><<<blocks, block, 0, stream>>>(call, packs);
  } else {
    forward_by_warp<kPacks, false><<<blocks, block, 0, stream>>>(call, packs);
  }
}

}  // namespace

void layer_norm_forward(const LayerNormForward& call, Stream stream) {
  require(call.columns > 0 && call.columns % kPack == 0, "a number of columns that 8 divides");
  require(call.fp8 == nullptr || call.scale != nullptr, "a scale where the output is fp8");
  if (call.rows == 0) {
    return;
  }
  const int packs = static_cast<int>(call.columns / kPack);
  const int64_t lane_packs = divide_up(packs, kWarp);
  if (lane_packs == 1) {
    launch_forward_by_warp<1>(call, packs, stream);
  } else if (lane_packs == 2) {
    launch_forward_by_warp<2>(call, packs, stream);
  } else if (lane_packs == 3) {
    launch_forward_by_warp<3>(call, packs, stream);
  } else if (lane_packs == 4) {
    launch_forward_by_warp<4>(call, packs, stream);
  } else if (lane_packs <= 6) {
    launch_forward_by_warp<6>(call, packs, stream);
  } else if (lane_packs <= 8) {
    launch_forward_by_warp<8>(call, packs, stream);
  } else {
    const int64_t resident = static_cast<int64_t>(multiprocessors()) * 8;
    const auto blocks = static_cast<unsigned>(std::min(resident, call.rows));
    forward_by_block<<<blocks, kFallbackThreads, 0, stream>>>(call, packs);
  }
  check_launch("layer_norm_forward");
}

}  // namespace lockstep::kernels
