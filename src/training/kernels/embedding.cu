// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/device.cuh"
#include "training/kernels/embedding.h"
#include "training/kernels/launch.h"

namespace lockstep::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarp * kWarps;

// token_gradient[t] += sum of output_gradient[i] over all positions i with token t. The usual
// scatter with atomicAdd has a random order of additions and serializes on frequent tokens; here
// the order is fixed.
//
// The caller has sorted the positions by token (stable):
//
//   sorted  7 7 7 7 9 9 12 ...   token of each sorted position
//   order   0 3 8 9 1 6  2 ...   its row in output_gradient
//           |-run-| |-|
//
// The positions of one token are a run. A short run is added up by the warp of its first position.
// A long run is added up by several blocks, each for a few columns, so that many multiprocessors
// share the rows of a frequent token. Word frequencies are skewed (Zipf): in English text one token
// can be several percent of all positions.

constexpr int kLong = 64;          // minimum number of rows of a long run
constexpr int kStripePacks = 8;    // packs of a long run that a block adds up: 128 bytes per row
constexpr int kWindow = kThreads;  // positions that a block searches for long runs
constexpr int kRowsAtOnce = kThreads / kStripePacks;
constexpr int kAhead = 8;  // independent loads in flight per thread

struct BackwardCall {
  float* token_gradient;
  const Bf16* output_gradient;
  const int64_t* sorted;
  const int64_t* order;
  int64_t count;
  int64_t packs;
};

__device__ __forceinline__ bool is_first(const BackwardCall& call, int64_t position) {
  return position == 0 || call.sorted[position - 1] != call.sorted[position];
}

// Whether the run that starts at `position` is long.
__device__ __forceinline__ bool is_long(const BackwardCall& call, int64_t position) {
  return position + kLong - 1 < call.count &&
         call.sorted[position + kLong - 1] == call.sorted[position];
}

__device__ void add_short_run(const BackwardCall& call, int64_t start) {
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t token = call.sorted[start];
  // A short run has at most kLong - 1 = 63 rows, so two positions per lane cover it. Lanes keep the
  // rows of these positions and pass them on by shuffle.
  static_assert(kLong <= 2 * kWarp);
  const int64_t near = start + lane;
  const int64_t far = near + kWarp;
  const bool near_is_in = near < call.count && call.sorted[near] == token;
  const bool far_is_in = far < call.count && call.sorted[far] == token;
  const int64_t near_row = near_is_in ? call.order[near] : 0;
  const int64_t far_row = far_is_in ? call.order[far] : 0;
  const int length = __popc(__ballot_sync(0xFFFFFFFFU, near_is_in)) +
                     __popc(__ballot_sync(0xFFFFFFFFU, far_is_in));
  for (int64_t first = 0; first < call.packs; first += kWarp) {
    const int64_t pack = first + lane;
    const bool is_mine = pack < call.packs;
    Floats sum{};
    if (is_mine) {
      sum = load_floats(call.token_gradient, token * call.packs + pack);
    }
    for (int begin = 0; begin < length; begin += 4) {
      uint4 raw[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int which = begin + i;
        const int64_t from_near = __shfl_sync(0xFFFFFFFFU, near_row, which % kWarp);
        const int64_t from_far = __shfl_sync(0xFFFFFFFFU, far_row, which % kWarp);
        const int64_t row = which < kWarp ? from_near : from_far;
        raw[i] = make_uint4(0, 0, 0, 0);
        if (is_mine && which < length) {
          raw[i] = load_pack(call.output_gradient, row * call.packs + pack);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        add_to(sum, widen(raw[i]));
      }
    }
    if (is_mine) {
      store_floats(call.token_gradient, token * call.packs + pack, sum);
    }
  }
}

// One past the last position of the run, found by all threads together. A search with 256 probes
// per round instead of one: 2^24 positions take three rounds. Invariant: sorted[in] == token, and
// `out` is after the run. Positions are sorted, so the number of probes inside the run shows where
// it ends.
__device__ int64_t find_end(const BackwardCall& call, int64_t start) {
  const int thread = static_cast<int>(threadIdx.y * kWarp + threadIdx.x);
  const int64_t token = call.sorted[start];
  int64_t in = start;        // in the run
  int64_t out = call.count;  // not in the run
  while (out - in > 1) {
    const int64_t stride = (out - in + kThreads - 1) / kThreads;
    const int64_t position = in + (thread + 1) * stride;
    const bool is_in = position < out && call.sorted[position] == token;
    const int64_t inside = __syncthreads_count(is_in ? 1 : 0);
    const int64_t new_out = in + (inside + 1) * stride;
    in += inside * stride;
    out = new_out < out ? new_out : out;
  }
  return out;
}

__device__ void add_long_run(const BackwardCall& call, int64_t start, int64_t stripe) {
  __shared__ __align__(16) float by_row[kRowsAtOnce][kStripePacks * kPack];
  const int thread = static_cast<int>(threadIdx.y * kWarp + threadIdx.x);
  const int64_t end = find_end(call, start);
  const int across = thread % kStripePacks;
  const int down = thread / kStripePacks;
  const int64_t pack = stripe * kStripePacks + across;
  Floats sum{};
  if (pack < call.packs) {
    int64_t position = start + down;
    for (; position + (kAhead - 1) * kRowsAtOnce < end; position += kAhead * kRowsAtOnce) {
      uint4 raw[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int64_t row = call.order[position + i * kRowsAtOnce];
        raw[i] = load_pack(call.output_gradient, row * call.packs + pack);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        add_to(sum, widen(raw[i]));
      }
    }
    for (; position < end; position += kRowsAtOnce) {
      add_to(sum, widen(load_pack(call.output_gradient, call.order[position] * call.packs + pack)));
    }
  }
  store_floats(by_row[down], across, sum);
  __syncthreads();
  const int64_t column = stripe * kStripePacks * kPack + thread;
  if (thread < kStripePacks * kPack && column < call.packs * kPack) {
    float total = 0;
#pragma unroll
    for (int i = 0; i < kRowsAtOnce; ++i) {
      total += by_row[i][thread];
    }
    call.token_gradient[call.sorted[start] * call.packs * kPack + column] += total;
  }
  __syncthreads();
}

// The first `long_blocks` blocks search for long runs. Each of the others processes the short runs
// of eight positions. Blocks usually start in the order of their numbers, and those with long runs
// take longest, so they are first. A block for long runs has a window of 256 positions and a stripe
// of 64 columns. It handles the runs that start in its window, wherever they end.
__global__ __launch_bounds__(kThreads) void backward_kernel(BackwardCall call,
                                                            int64_t stripes,
                                                            int64_t long_blocks) {
  const int thread = static_cast<int>(threadIdx.y * kWarp + threadIdx.x);
  const int64_t block = blockIdx.x;
  if (block >= long_blocks) {
    const int64_t position = (block - long_blocks) * kWarps + threadIdx.y;
    if (position < call.count && is_first(call, position) && !is_long(call, position)) {
      add_short_run(call, position);
    }
    return;
  }
  __shared__ uint32_t found[kWarps];
  const int64_t window = (block / stripes) * kWindow;
  const int64_t position = window + thread;
  const bool is_start =
      position < call.count && is_long(call, position) && is_first(call, position);
  const uint32_t ballot = __ballot_sync(0xFFFFFFFFU, is_start);
  if (threadIdx.x == 0) {
    found[threadIdx.y] = ballot;
  }
  __syncthreads();
  for (int warp = 0; warp < kWarps; ++warp) {
    for (uint32_t left = found[warp]; left != 0; left &= left - 1) {
      const int64_t start = window + warp * kWarp + __ffs(static_cast<int>(left)) - 1;
      add_long_run(call, start, block % stripes);
    }
  }
}

// ---- the gradient of the positions: a thread per pack of the result

__global__ __launch_bounds__(kThreads) void position_kernel(
    float* __restrict__ position_gradient,
    const Bf16* __restrict__ output_gradient,
    int64_t repeats,
    int64_t packs) {
  const int64_t pack = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pack >= packs) {
    return;
  }
  Floats sum{};
  int64_t row = 0;
  for (; row + kAhead <= repeats; row += kAhead) {
    uint4 raw[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      raw[i] = load_pack(output_gradient, (row + i) * packs + pack);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      add_to(sum, widen(raw[i]));
    }
  }
  for (; row < repeats; ++row) {
    add_to(sum, widen(load_pack(output_gradient, row * packs + pack)));
  }
  store_floats(position_gradient, pack, sum);
}

}  // namespace

void embedding_backward(float* token_gradient,
                        const Bf16* output_gradient,
                        const int64_t* sorted,
                        const int64_t* order,
                        int64_t count,
                        int64_t columns,
                        Stream stream) {
  require(columns > 0 && columns % kPack == 0, "a number of columns that 8 divides");
  if (count == 0) {
    return;
  }
  const BackwardCall call{token_gradient, output_gradient, sorted, order, count, columns / kPack};
  const int64_t stripes = divide_up(call.packs, kStripePacks);
  const int64_t long_blocks = divide_up(count, kWindow) * stripes;
  const auto blocks = static_cast<unsigned>(long_blocks + divide_up(count, kWarps));
  backward_kernel<<<blocks, dim3(kWarp, kWarps), 0, stream>>>(call, stripes, long_blocks);
  check_launch("embedding_backward");
}

void position_backward(float* position_gradient,
                       const Bf16* output_gradient,
                       int64_t count,
                       int64_t length,
                       int64_t columns,
                       Stream stream) {
  require(columns > 0 && columns % kPack == 0, "a number of columns that 8 divides");
  require(length > 0 && count % length == 0, "a whole number of sequences");
  const int64_t packs = length * columns / kPack;
  const auto blocks = static_cast<unsigned>(divide_up(packs, kThreads));
  position_kernel<<<blocks, kThreads, 0, stream>>>(
      position_gradient, output_gradient, count / length, packs);
  check_launch("position_backward");
}

}  // namespace lockstep::kernels
