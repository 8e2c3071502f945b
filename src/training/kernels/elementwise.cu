// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/column_sums.h"
#include "training/kernels/device.cuh"
#include "training/kernels/elementwise.h"
#include "training/kernels/gelu.cuh"
#include "training/kernels/launch.h"

namespace lockstep::kernels {
namespace {

constexpr int kWarpsPerBlock = 8;
constexpr int kBlocksPerMultiprocessor = 4;

// The work of by_column() on a pack. A thread keeps the result of hold() for its column. It calls
// load() for kAhead rows before it calls finish() for them, so that their loads are in flight
// together. finish() writes the result and returns the values for the column sums. kAhead is
// limited by the registers of Raw.

struct BiasGeluWork {
  static constexpr int kAhead = 4;
  using Held = Floats;
  using Raw = uint4;
  Bf16* output;
  Bf16* before;
  const Bf16* input;
  const float* bias;
  int64_t packs;

  __device__ Held hold(int64_t pack) const {
    return bias == nullptr ? Floats{} : load_floats(bias, pack);
  }
  __device__ Raw load(int64_t row, int64_t pack, const Held&) const {
    return load_pack(input, row * packs + pack);
  }
  __device__ Floats finish(const Raw& raw, int64_t row, int64_t pack, const Held& held) const {
    Floats values = widen(raw);
    if (bias != nullptr) {
      add_to(values, held);
      if (before != nullptr) {
        // Backward uses the stored value, so the output is the gelu of the stored value.
        const uint4 rounded = narrow(values);
        values = widen(rounded);
        store_pack(before, row * packs + pack, rounded);
      }
    } else if (before != nullptr && before != input) {
      store_pack(before, row * packs + pack, raw);
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      values.at[i] = gelu(values.at[i]);
    }
    store_pack(output, row * packs + pack, narrow(values));
    return values;
  }
};

struct Nothing {};

struct GeluBackwardWork {
  static constexpr int kAhead = 2;
  using Held = Nothing;
  struct Raw {
    uint4 gradient;
    uint4 before;
  };
  Bf16* input_gradient;
  const Bf16* output_gradient;
  const Bf16* before;
  int64_t packs;

  __device__ Held hold(int64_t) const { return {}; }
  __device__ Raw load(int64_t row, int64_t pack, const Held&) const {
    const int64_t place = row * packs + pack;
    return {load_pack(output_gradient, place), load_pack(before, place)};
  }
  __device__ Floats finish(const Raw& raw, int64_t row, int64_t pack, const Held&) const {
    Floats values = widen(raw.gradient);
    const Floats at = widen(raw.before);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      values.at[i] *= gelu_gradient(at.at[i]);
    }
    const uint4 rounded = narrow(values);
    store_pack(input_gradient, row * packs + pack, rounded);
    return widen(rounded);
  }
};

struct SumWork {
  static constexpr int kAhead = 8;
  using Held = Nothing;
  using Raw = uint4;
  const Bf16* matrix;
  int64_t packs;

  __device__ Held hold(int64_t) const { return {}; }
  __device__ Raw load(int64_t row, int64_t pack, const Held&) const {
    return load_pack(matrix, row * packs + pack);
  }
  __device__ Floats finish(const Raw& raw, int64_t, int64_t, const Held&) const {
    return widen(raw);
  }
};

struct JoinWork {
  static constexpr int kAhead = 4;
  using Held = const Bf16*;  // address of the column in its source
  using Raw = uint4;
  Bf16* joined;
  const Bf16* first;
  const Bf16* second;
  const Bf16* third;
  int64_t packs;  // of one source

  __device__ Held hold(int64_t pack) const {
    const int64_t source = pack / packs;
    const Bf16* from = source == 0 ? first : source == 1 ? second : third;
    return from + (pack - source * packs) * kPack;
  }
  __device__ Raw load(int64_t row, int64_t, const Held& held) const {
    return load_pack(held, row * packs);
  }
  __device__ Floats finish(const Raw& raw, int64_t row, int64_t pack, const Held&) const {
    store_pack(joined, row * 3 * packs + pack, raw);
    return widen(raw);
  }
};

// A warp processes a stripe of 32 packs (256 columns, 512 bytes of a row) row by row. The warps of
// a block process the same stripe:
//
//              blockIdx.x = 0        1           2
//   row 0    | warp 0, block 0   | ...       | ...     |   blockIdx.y = 0
//   row 1    | warp 1            |           |         |
//   ...      | ...               |           |         |
//   row 8    | warp 0, block 1   |           |         |   blockIdx.y = 1
//
// All blocks advance at the same pace, so that the rows being read at any time are adjacent in
// memory. A thread has the same columns in all rows: the bias is loaded once, and column sums stay
// in registers. With kSums, block y writes the sums of its rows to partials [gridDim.y, packs * 8],
// which add_partials() adds up in fixed order.
template <typename Work, bool kSums>
__global__ __launch_bounds__(kWarp* kWarpsPerBlock, kBlocksPerMultiprocessor) void by_column(
    Work work, float* partials, int64_t rows, int64_t packs) {
  const int64_t pack = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  const int64_t step = static_cast<int64_t>(gridDim.y) * kWarpsPerBlock;
  Floats sum{};
  if (pack < packs) {
    const typename Work::Held held = work.hold(pack);
    int64_t row = static_cast<int64_t>(blockIdx.y) * kWarpsPerBlock + threadIdx.y;
    for (; row + (Work::kAhead - 1) * step < rows; row += Work::kAhead * step) {
      typename Work::Raw raw[Work::kAhead];
#pragma unroll
      for (int i = 0; i < Work::kAhead; ++i) {
        raw[i] = work.load(row + i * step, pack, held);
      }
#pragma unroll
      for (int i = 0; i < Work::kAhead; ++i) {
        const Floats values = work.finish(raw[i], row + i * step, pack, held);
        if constexpr (kSums) {
          add_to(sum, values);
        }
      }
    }
    for (; row < rows; row += step) {
      const Floats values = work.finish(work.load(row, pack, held), row, pack, held);
      if constexpr (kSums) {
        add_to(sum, values);
      }
    }
  }
  if constexpr (kSums) {
    __shared__ __align__(16) float by_warp[kWarpsPerBlock][kWarp * kPack];
    store_floats(by_warp[threadIdx.y], threadIdx.x, sum);
    __syncthreads();
    const int place = static_cast<int>(threadIdx.y * kWarp + threadIdx.x);
    const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp * kPack + place;
    static_assert(kWarpsPerBlock == kPack, "a thread for each column of the stripe");
    if (column < packs * kPack) {
      float total = 0;
#pragma unroll
      for (int warp = 0; warp < kWarpsPerBlock; ++warp) {
        total += by_warp[warp][place];
      }
      partials[static_cast<int64_t>(blockIdx.y) * packs * kPack + column] = total;
    }
  }
}

int64_t stripes_of(int64_t columns) {
  return divide_up(columns / kPack, kWarp);
}

// The number of blocks per stripe, chosen to fill the device.
int64_t blocks_down(int64_t columns) {
  const int64_t places = static_cast<int64_t>(multiprocessors()) * kBlocksPerMultiprocessor;
  return std::max<int64_t>(1, places / stripes_of(columns));
}

dim3 grid_of(int64_t rows, int64_t columns) {
  require(columns > 0 && columns % kPack == 0, "a number of columns that 8 divides");
  const int64_t needed = std::max<int64_t>(1, divide_up(rows, kWarpsPerBlock));
  const int64_t down = std::min(blocks_down(columns), needed);
  return {static_cast<unsigned>(stripes_of(columns)), static_cast<unsigned>(down)};
}

template <typename Work>
void launch(const Work& work, int64_t rows, int64_t columns, const char* name, Stream stream) {
  const dim3 grid = grid_of(rows, columns);
  const dim3 block(kWarp, kWarpsPerBlock);
  by_column<Work, false><<<grid, block, 0, stream>>>(work, nullptr, rows, columns / kPack);
  check_launch(name);
}

template <typename Work>
void launch_with_sums(const Work& work,
                      float* sums,
                      void* workspace,
                      int64_t rows,
                      int64_t columns,
                      const char* name,
                      Stream stream) {
  require(workspace != nullptr, "a workspace where sums are wanted");
  const dim3 grid = grid_of(rows, columns);
  const dim3 block(kWarp, kWarpsPerBlock);
  auto* partials = static_cast<float*>(workspace);
  by_column<Work, true><<<grid, block, 0, stream>>>(work, partials, rows, columns / kPack);
  check_launch(name);
  add_partials({.parts = {sums}, .columns = columns}, partials, grid.y, columns, stream);
}

}  // namespace

int64_t column_sum_workspace(int64_t columns) {
  return blocks_down(columns) * columns * static_cast<int64_t>(sizeof(float));
}

void bias_gelu_forward(Bf16* output,
                       Bf16* before,
                       const Bf16* input,
                       const float* bias,
                       int64_t rows,
                       int64_t columns,
                       Stream stream) {
  const BiasGeluWork work{output, before, input, bias, columns / kPack};
  launch(work, rows, columns, "bias_gelu_forward", stream);
}

void gelu_backward(Bf16* input_gradient,
                   float* bias_gradient,
                   const Bf16* output_gradient,
                   const Bf16* before,
                   void* workspace,
                   int64_t rows,
                   int64_t columns,
                   Stream stream) {
  const GeluBackwardWork work{input_gradient, output_gradient, before, columns / kPack};
  if (bias_gradient == nullptr) {
    launch(work, rows, columns, "gelu_backward", stream);
  } else {
    launch_with_sums(work, bias_gradient, workspace, rows, columns, "gelu_backward", stream);
  }
}

void column_sum(float* sums,
                const Bf16* matrix,
                void* workspace,
                int64_t rows,
                int64_t columns,
                Stream stream) {
  const SumWork work{matrix, columns / kPack};
  launch_with_sums(work, sums, workspace, rows, columns, "column_sum", stream);
}

void join_columns(Bf16* joined,
                  float* sums,
                  const Bf16* first,
                  const Bf16* second,
                  const Bf16* third,
                  void* workspace,
                  int64_t rows,
                  int64_t columns,
                  Stream stream) {
  require(columns % kPack == 0, "a number of columns that 8 divides");
  const JoinWork work{joined, first, second, third, columns / kPack};
  if (sums == nullptr) {
    launch(work, rows, 3 * columns, "join_columns", stream);
  } else {
    launch_with_sums(work, sums, workspace, rows, 3 * columns, "join_columns", stream);
  }
}

}  // namespace lockstep::kernels
