// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/column_sums.h"
#include "training/kernels/fp8.cuh"
#include "training/kernels/gelu.cuh"
#include "training/kernels/launch.h"

namespace lockstep::kernels {
namespace {

// One pass computes a matrix, rounds it to fp8 and writes it twice: without and with transpose.
//
// A block processes tiles of 128 x 128 elements. A thread loads 4 rows x 8 columns and transposes
// them in registers into 8 words of 4 rows each. It stores the words in shared memory, from which
// every column of the tile is written as one line of 128 bytes. All accesses to global memory are
// full lines.
constexpr int kTile = 128;
constexpr int kThreads = 256;
constexpr int kAcross = kTile / kPack;     // threads next to each other in a row
constexpr int kDown = kThreads / kAcross;  // threads below each other
constexpr int kRowsOfThread = 4;           // bytes of a word
constexpr int kRowsAtOnce = kDown * kRowsOfThread;
constexpr int kWordsOfColumn = kTile / kRowsOfThread;
// One word of padding, so that columns start in different banks.
constexpr int kColumnStride = kWordsOfColumn + 1;
constexpr int kBlocksPerMultiprocessor = 4;

// The sources of a tile. A thread keeps the result of hold() for its 8 columns. It calls load() for
// all its rows before values(), so that several loads are in flight.

struct CastWork {
  static constexpr int kBlocks = kBlocksPerMultiprocessor;
  static constexpr bool kIsFp8 = false;
  struct Held {};
  using Raw = uint4;
  const Bf16* input;
  int64_t packs;

  __device__ Held hold(int64_t) const { return {}; }
  __device__ Raw load(int64_t row, int64_t pack, const Held&) const {
    return load_pack(input, row * packs + pack);
  }
  __device__ Floats values(const Raw& raw, const Held&) const { return widen(raw); }
};

struct GeluWork {
  static constexpr int kBlocks = kBlocksPerMultiprocessor;
  static constexpr bool kIsFp8 = false;
  using Held = Floats;  // the bias
  using Raw = uint4;
  const Bf16* product;
  const float* bias;
  int64_t packs;

  __device__ Held hold(int64_t pack) const { return load_floats(bias, pack); }
  __device__ Raw load(int64_t row, int64_t pack, const Held&) const {
    return load_pack(product, row * packs + pack);
  }
  __device__ Floats values(const Raw& raw, const Held& held) const {
    Floats x = widen(raw);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      x.at[i] = gelu(x.at[i] + held.at[i]);
    }
    return x;
  }
};

struct GeluBackwardWork {
  static constexpr int kBlocks = 3;  // needs more registers
  static constexpr bool kIsFp8 = false;
  using Held = Floats;  // the bias
  struct Raw {
    uint4 dy;
    uint4 product;
  };
  const Bf16* dy;
  const Bf16* product;
  const float* bias;
  int64_t packs;

  __device__ Held hold(int64_t pack) const { return load_floats(bias, pack); }
  __device__ Raw load(int64_t row, int64_t pack, const Held&) const {
    return {load_pack(dy, row * packs + pack), load_pack(product, row * packs + pack)};
  }
  __device__ Floats values(const Raw& raw, const Held& held) const {
    Floats dx = widen(raw.dy);
    const Floats x = widen(raw.product);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      dx.at[i] *= gelu_gradient(x.at[i] + held.at[i]);
    }
    return dx;
  }
};

struct JoinWork {
  static constexpr int kBlocks = kBlocksPerMultiprocessor;
  static constexpr bool kIsFp8 = false;
  using Held = const Bf16*;  // the columns of this thread in their source matrix
  using Raw = uint4;
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
  __device__ Floats values(const Raw& raw, const Held&) const { return widen(raw); }
};

// The input is already fp8.
struct TransposeWork {
  static constexpr int kBlocks = 6;
  static constexpr bool kIsFp8 = true;
  struct Held {};
  using Raw = uint2;
  const Fp8* input;
  int64_t packs;

  __device__ Held hold(int64_t) const { return {}; }
  __device__ Raw load(int64_t row, int64_t pack, const Held&) const {
    return reinterpret_cast<const uint2*>(input)[row * packs + pack];
  }
};

// rows[i] contains 4 columns of row i; the result columns[i] contains 4 rows of column i. A
// selector of __byte_perm names the source byte of each result byte, from the lowest digit on: 0 to
// 3 are bytes of the first word, 4 to 7 of the second. 0x5140 interleaves the low halves, 0x7362
// the high ones.
__device__ __forceinline__ void transpose_bytes(uint32_t* columns, const uint32_t (&rows)[4]) {
  const uint32_t low01 = __byte_perm(rows[0], rows[1], 0x5140);
  const uint32_t low23 = __byte_perm(rows[2], rows[3], 0x5140);
  const uint32_t high01 = __byte_perm(rows[0], rows[1], 0x7362);
  const uint32_t high23 = __byte_perm(rows[2], rows[3], 0x7362);
  columns[0] = __byte_perm(low01, low23, 0x5410);
  columns[1] = __byte_perm(low01, low23, 0x7632);
  columns[2] = __byte_perm(high01, high23, 0x5410);
  columns[3] = __byte_perm(high01, high23, 0x7632);
}

__device__ __forceinline__ void swap_if(bool swaps, uint32_t& one, uint32_t& other) {
  const uint32_t old = one;
  one = swaps ? other : one;
  other = swaps ? old : other;
}

// Stores word `word` of the 8 columns of the thread. Lanes 0, 4, 8 and 12 of a half warp start in
// the same bank. Each of these groups of lanes therefore starts with another column, and the lanes
// of a warp have no bank conflicts.
__device__ __forceinline__ void store_columns(uint32_t* tile,
                                              int across,
                                              int word,
                                              uint32_t (&columns)[kPack]) {
  const int group = across / 4;
  const bool is_odd = (group & 1) != 0;
  const bool is_high = (group & 2) != 0;
  swap_if(is_odd, columns[0], columns[2]);
  swap_if(is_odd, columns[1], columns[3]);
  swap_if(is_odd, columns[4], columns[6]);
  swap_if(is_odd, columns[5], columns[7]);
  swap_if(is_high, columns[0], columns[4]);
  swap_if(is_high, columns[1], columns[5]);
  swap_if(is_high, columns[2], columns[6]);
  swap_if(is_high, columns[3], columns[7]);
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    tile[(across * kPack + (i ^ (2 * group))) * kColumnStride + word] = columns[i];
  }
}

// Writes the tile that starts at `row`, `column` of the matrix.
__device__ __forceinline__ void write_transposed(const uint32_t* tile,
                                                 Fp8* transposed,
                                                 int64_t row,
                                                 int64_t column,
                                                 int64_t columns,
                                                 int64_t stride) {
  constexpr int kPieces = kTile / 16;  // of 16 bytes in a column
  const int thread = static_cast<int>(threadIdx.x);
  const int piece = thread % kPieces;
  if (row + piece * 16 >= stride) {
    return;
  }
#pragma unroll
  for (int i = 0; i < kTile; i += kThreads / kPieces) {
    const int within = thread / kPieces + i;
    if (column + within < columns) {
      const uint32_t* from = tile + within * kColumnStride + piece * 4;
      const uint4 bits = make_uint4(from[0], from[1], from[2], from[3]);
      *reinterpret_cast<uint4*>(transposed + (column + within) * stride + row + piece * 16) = bits;
    }
  }
}

// A block stays within a stripe of 128 columns and moves down the rows, so that it keeps the sums
// of its columns in registers. With kSums it writes them to partials [gridDim.y, columns].
template <typename Work, Fp8Type kType, bool kSums>
__global__ __launch_bounds__(kThreads, Work::kBlocks) void by_tile(
    Work work, Fp8Output output, float* partials, int64_t rows, int64_t columns, int64_t stride) {
  __shared__ __align__(16) uint32_t tile[kTile * kColumnStride];
  const int across = static_cast<int>(threadIdx.x) % kAcross;
  const int down = static_cast<int>(threadIdx.x) / kAcross;
  const int64_t packs = columns / kPack;
  const int64_t pack = static_cast<int64_t>(blockIdx.x) * kAcross + across;
  const bool is_inside = pack < packs;
  typename Work::Held held{};
  if (is_inside) {
    held = work.hold(pack);
  }
  float scale = 1;
  if constexpr (!Work::kIsFp8) {
    scale = output.scale->scale;
  }
  float amax = 0;
  Floats sum{};

  for (int64_t start = static_cast<int64_t>(blockIdx.y) * kTile; start < stride;
       start += static_cast<int64_t>(gridDim.y) * kTile) {
#pragma unroll
    for (int part = 0; part < kTile / kRowsAtOnce; ++part) {
      const int64_t first = start + part * kRowsAtOnce + down * kRowsOfThread;
      typename Work::Raw raw[kRowsOfThread];
#pragma unroll
      for (int i = 0; i < kRowsOfThread; ++i) {
        raw[i] = {};
        if (is_inside && first + i < rows) {
          raw[i] = work.load(first + i, pack, held);
        }
      }
      uint32_t low[kRowsOfThread];
      uint32_t high[kRowsOfThread];
#pragma unroll
      for (int i = 0; i < kRowsOfThread; ++i) {
        uint2 bits = make_uint2(0, 0);  // padding of a transposed row
        if (is_inside && first + i < rows) {
          if constexpr (Work::kIsFp8) {
            bits = raw[i];
          } else {
            const Floats values = work.values(raw[i], held);
            amax = largest(amax, values);
            if constexpr (kSums) {
              add_to(sum, values);
            }
            bits = narrow_to_fp8<kType>(values, scale);
            if (output.plain != nullptr) {
              store_fp8(output.plain, (first + i) * packs + pack, bits);
            }
          }
        }
        low[i] = bits.x;
        high[i] = bits.y;
      }
      uint32_t words[kPack];
      transpose_bytes(words, low);
      transpose_bytes(words + 4, high);
      store_columns(tile, across, part * kDown + down, words);
    }
    // The first barrier: all words of the tile are stored. The second: all are read, before the
    // next tile overwrites them. All threads of a block take this branch or none does.
    if (output.transposed != nullptr) {
      __syncthreads();
      write_transposed(tile,
                       output.transposed,
                       start,
                       static_cast<int64_t>(blockIdx.x) * kTile,
                       columns,
                       stride);
      __syncthreads();
    }
  }

  if constexpr (!Work::kIsFp8) {
    if (output.history != nullptr) {
      record(output.history, amax);
    }
  }
  if constexpr (kSums) {
    __syncthreads();
    // The tile is no longer needed, and its memory holds the sums of all threads.
    auto* by_thread = reinterpret_cast<float*>(tile);  // [kDown, kTile]
    static_assert(kDown <= kColumnStride);
    store_floats(by_thread, down * kAcross + across, sum);
    __syncthreads();
    const int place = static_cast<int>(threadIdx.x);
    const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile + place;
    if (place < kTile && column < columns) {
      float total = 0;
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        total += by_thread[i * kTile + place];
      }
      partials[static_cast<int64_t>(blockIdx.y) * columns + column] = total;
    }
  }
}

int64_t blocks_down(int64_t columns, int blocks_per_multiprocessor) {
  const int64_t places = static_cast<int64_t>(multiprocessors()) * blocks_per_multiprocessor;
  return std::max<int64_t>(1, places / divide_up(columns, kTile));
}

template <typename Work>
dim3 grid_of(int64_t rows, int64_t columns) {
  require(columns > 0 && columns % kPack == 0, "a number of columns that 8 divides");
  const int64_t tiles = std::max<int64_t>(1, divide_up(rows, kTile));
  // The number of rounds of the fullest block; all blocks share the tiles evenly.
  const int64_t rounds = divide_up(tiles, std::min(tiles, blocks_down(columns, Work::kBlocks)));
  return {static_cast<unsigned>(divide_up(columns, kTile)),
          static_cast<unsigned>(divide_up(tiles, rounds))};
}

template <typename Work, bool kSums>
void launch_typed(const Work& work,
                  const Fp8Output& output,
                  float* partials,
                  dim3 grid,
                  int64_t rows,
                  int64_t columns,
                  Stream stream) {
  if (output.type == Fp8Type::E4m3) {
    by_tile<Work, Fp8Type::E4m3, kSums>
        <<<grid, kThreads, 0, stream>>>(work, output, partials, rows, columns, fp8_stride(rows));
  } else {
    by_tile<Work, Fp8Type::E5m2, kSums>
        <<<grid, kThreads, 0, stream>>>(work, output, partials, rows, columns, fp8_stride(rows));
  }
}

template <typename Work>
void launch(const Work& work,
            const Fp8Output& output,
            float* sums,
            void* workspace,
            int64_t rows,
            int64_t columns,
            const char* name,
            Stream stream) {
  require(output.scale != nullptr, "a scale");
  require(sums == nullptr || workspace != nullptr, "a workspace where sums are wanted");
  const dim3 grid = grid_of<Work>(rows, columns);
  if (sums == nullptr) {
    launch_typed<Work, false>(work, output, nullptr, grid, rows, columns, stream);
    check_launch(name);
    return;
  }
  auto* partials = static_cast<float*>(workspace);
  launch_typed<Work, true>(work, output, partials, grid, rows, columns, stream);
  check_launch(name);
  add_partials({.parts = {sums}, .columns = columns}, partials, grid.y, columns, stream);
}

}  // namespace

int64_t fp8_workspace(int64_t columns) {
  return blocks_down(columns, kBlocksPerMultiprocessor) * columns *
         static_cast<int64_t>(sizeof(float));
}

void cast_to_fp8(const Fp8Output& output,
                 float* sums,
                 const Bf16* input,
                 void* workspace,
                 int64_t rows,
                 int64_t columns,
                 Stream stream) {
  const CastWork work{input, columns / kPack};
  launch(work, output, sums, workspace, rows, columns, "cast_to_fp8", stream);
}

void gelu_to_fp8(const Fp8Output& output,
                 const Bf16* product,
                 const float* bias,
                 int64_t rows,
                 int64_t columns,
                 Stream stream) {
  const GeluWork work{product, bias, columns / kPack};
  launch(work, output, nullptr, nullptr, rows, columns, "gelu_to_fp8", stream);
}

void gelu_backward_to_fp8(const Fp8Output& output,
                          float* bias_gradient,
                          const Bf16* dy,
                          const Bf16* product,
                          const float* bias,
                          void* workspace,
                          int64_t rows,
                          int64_t columns,
                          Stream stream) {
  const GeluBackwardWork work{dy, product, bias, columns / kPack};
  launch(work, output, bias_gradient, workspace, rows, columns, "gelu_backward_to_fp8", stream);
}

void join_to_fp8(const Fp8Output& output,
                 float* sums,
                 const Bf16* first,
                 const Bf16* second,
                 const Bf16* third,
                 void* workspace,
                 int64_t rows,
                 int64_t columns,
                 Stream stream) {
  require(columns % kPack == 0, "a number of columns that 8 divides");
  const JoinWork work{first, second, third, columns / kPack};
  launch(work, output, sums, workspace, rows, 3 * columns, "join_to_fp8", stream);
}

void transpose_fp8(
    Fp8* transposed, const Fp8* input, int64_t rows, int64_t columns, Stream stream) {
  const TransposeWork work{input, columns / kPack};
  const dim3 grid = grid_of<TransposeWork>(rows, columns);
  const Fp8Output output{.transposed = transposed};
  by_tile<TransposeWork, Fp8Type::E4m3, false>
      <<<grid, kThreads, 0, stream>>>(work, output, nullptr, rows, columns, fp8_stride(rows));
  check_launch("transpose_fp8");
}

}  // namespace lockstep::kernels
