// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/cross_entropy.h"
#include "training/kernels/device.cuh"
#include "training/kernels/launch.h"

namespace lockstep::kernels {
namespace {

// Cross entropy of scores x with target t, and its gradient, in one pass over memory:
//
//   m    = max(x)
//   s    = sum of exp(x - m)
//   loss = m + log(s) - x[t]
//   dx_i = scale * (prob_i - [i == t])   with prob_i = exp(x_i - m - log(s))
//
// All exponentials are powers of two, exp(x) = 2^(x log2(e)), because this is the instruction of
// the hardware: ex2. Then prob_i = 2^(x_i log2(e) - log2_sum_exp), one multiply-add and one ex2,
// where log2_sum_exp = m log2(e) + log2(s).
//
// The gradient replaces the scores in memory. With the 50257 classes of GPT-2 they are
// the largest tensor of a step, so memory traffic matters: a row is read once and written once.
//
// - cross_entropy_held: the row fits into the registers of a block (7 packs of 8 scores in each of
//   1024 threads: 57344 classes). Its copy from memory overlaps the arithmetic of the rows before.
// - cross_entropy_streamed: longer rows, and GPUs without bulk copies. Max and sum are computed
//   together in one pass (online softmax, Milakov and Gimelshein 2018); a second pass writes.
constexpr int kMaxThreads = 1024;
constexpr int kMaxPacks = 7;  // packs that a thread holds in registers
constexpr int kBuffers = 2;   // rows in shared memory, in transit
constexpr float kLog2OfE = 1.4426950408889634F;
constexpr uint32_t kMinusInfinity = 0xFF80U;  // as a bfloat16

__device__ __forceinline__ float exp2_fast(float exponent) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
  return result;
}

__device__ __forceinline__ __nv_bfloat162 as_pair(uint32_t word) {
  return *reinterpret_cast<const __nv_bfloat162*>(&word);
}

__device__ __forceinline__ __nv_bfloat162 max_of_pack(__nv_bfloat162 so_far, uint4 bits) {
  const __nv_bfloat162 low = __hmax2(as_pair(bits.x), as_pair(bits.y));
  const __nv_bfloat162 high = __hmax2(as_pair(bits.z), as_pair(bits.w));
  return __hmax2(so_far, __hmax2(low, high));
}

__device__ __forceinline__ float max_of_pair(__nv_bfloat162 pair) {
  return fmaxf(__low2float(pair), __high2float(pair));
}

// The sum of 2^(x log2(e) - offset).
__device__ __forceinline__ float sum_exp2(uint4 bits, float offset) {
  const Floats values = widen(bits);
  float terms[kPack];
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    terms[j] = exp2_fast(fmaf(values.at[j], kLog2OfE, -offset));
  }
  return ((terms[0] + terms[1]) + (terms[2] + terms[3])) +
         ((terms[4] + terms[5]) + (terms[6] + terms[7]));
}

// Keeps the first `count` elements and replaces each of the others by `filler`.
__device__ __forceinline__ uint4 keep_first(uint4 bits, int64_t count, uint32_t filler) {
  uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t low = 2 * i < count ? words[i] & 0xFFFFU : filler;
    const uint32_t high = 2 * i + 1 < count ? words[i] >> 16 : filler;
    words[i] = low | (high << 16);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// The values of a row that its gradient depends on.
struct RowSoftmax {
  float log2_sum_exp = 0;
  float factor = 0;
  int64_t target = -1;
  int64_t classes = 0;
};

__device__ __forceinline__ uint4 gradient_pack(uint4 bits,
                                               int64_t pack,
                                               const RowSoftmax& softmax) {
  Floats values = widen(bits);
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    values.at[j] = exp2_fast(fmaf(values.at[j], kLog2OfE, -softmax.log2_sum_exp)) * softmax.factor;
  }
  const uint4 result = narrow(values);
  const int64_t left = softmax.classes - pack * kPack;
  return left < kPack ? keep_first(result, left, 0) : result;
}

// Writes the loss (one thread) and returns the values for the gradient. `target_score` is the score
// of the target.
__device__ __forceinline__ RowSoftmax finish_row(const CrossEntropyCall& call,
                                                 int64_t row,
                                                 int64_t target,
                                                 float target_score,
                                                 float row_max,
                                                 float sum) {
  // An invalid target makes the loss and the gradient of its row NaN, so that it is noticed.
  const float nan = __int_as_float(0x7FC00000);
  const bool is_wrong = target >= call.classes;
  if (threadIdx.x == 0 && call.losses != nullptr) {
    const float loss = row_max + logf(sum) - target_score;
    call.losses[row] = target < 0 ? 0.0F : is_wrong ? nan : loss;
  }
  return {.log2_sum_exp = fmaf(row_max, kLog2OfE, log2f(sum)),
          .factor = is_wrong ? nan : call.scale,
          .target = target,
          .classes = call.classes};
}

// Applies the -1 of the gradient to the element of the target. The thread that has stored the pack
// of the target does this, because stores of one thread to one address stay in order.
__device__ __forceinline__ void mark_target(Bf16* scores,
                                            float target_score,
                                            const RowSoftmax& softmax) {
  if (softmax.target < 0 || softmax.target >= softmax.classes) {
    return;
  }
  const auto owner = static_cast<unsigned>((softmax.target / kPack) % blockDim.x);
  if (threadIdx.x == owner) {
    const float prob = exp2_fast(fmaf(target_score, kLog2OfE, -softmax.log2_sum_exp));
    scores[softmax.target] = narrow((prob - 1.0F) * softmax.factor);
  }
}

// ---- rows that fit: the copy engine copies them to shared memory during the computation of
// previous rows

__device__ __forceinline__ uint32_t shared_address(const void* place) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(place));
}

// Announces `bytes` to the barrier `arrived`, then starts the copies, which report to it as they
// arrive. Bulk copies are asynchronous to all threads (cp.async.bulk, Hopper).
__device__ __forceinline__ void start_copy(void* to,
                                           const void* from,
                                           uint32_t bytes,
                                           uint64_t* arrived) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrived)),
      "r"(bytes)
      : "memory");
  constexpr uint32_t kPiece = 16384;
  for (uint32_t done = 0; done < bytes; done += kPiece) {
    const uint32_t piece = bytes - done < kPiece ? bytes - done : kPiece;
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(to) + done),
        "l"(static_cast<const char*>(from) + done),
        "r"(piece),
        "r"(shared_address(arrived))
        : "memory");
  }
#endif
}

// An mbarrier has a phase for every use. A thread waits for the end of the phase with this parity,
// which alternates with each use of the buffer.
__device__ __forceinline__ void await_copy(uint64_t* arrived, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  uint32_t is_there = 0;
  while (is_there == 0) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}\n"
        : "=r"(is_there)
        : "r"(shared_address(arrived)), "r"(parity)
        : "memory");
  }
#endif
}

// The fences make the initialised barriers visible to the copy engine, which accesses shared memory
// through another proxy than the threads do.
__device__ __forceinline__ void prepare_barriers(uint64_t* arrived) {
#if __CUDA_ARCH__ >= 900
  for (int i = 0; i < kBuffers; ++i) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrived + i))
                 : "memory");
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// A block per row. The row is read from shared memory once, into registers, so its buffer is free
// for the row after the next before the arithmetic begins:
//
//   copy      row 0 | row 1 | row 2        | row 3        |
//   compute         | row 0        | row 1        | row 2        |
//   buffer    0       1       0              1
//
// The barrier after the maximum has two purposes. It publishes `maxima`, and it is the point from
// which on no thread reads the buffer. Only then can thread 0 start the next copy into it.
__global__ __launch_bounds__(kMaxThreads, 1) void cross_entropy_held(CrossEntropyCall call,
                                                                     int packs) {
  extern __shared__ __align__(128) uint4 buffers[];  // [kBuffers, packs]
  __shared__ __align__(8) uint64_t arrived[kBuffers];
  __shared__ float maxima[kWarp];
  __shared__ float sums[kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int lane = thread % kWarp;
  const int warps = threads / kWarp;
  const int64_t step = gridDim.x;
  const auto row_bytes = static_cast<uint32_t>(packs * sizeof(uint4));

  int64_t row = blockIdx.x;
  if (thread == 0) {
    prepare_barriers(arrived);
    for (int i = 0; i < kBuffers; ++i) {
      if (row + i * step < call.rows) {
        start_copy(buffers + i * packs,
                   call.scores + (row + i * step) * call.stride,
                   row_bytes,
                   arrived + i);
      }
    }
  }
  __syncthreads();

  int buffer = 0;
  uint32_t parity = 0;
  int64_t next_target = row < call.rows ? call.targets[row] : -1;
  for (; row < call.rows; row += step) {
    const int64_t target = next_target;
    if (row + step < call.rows) {
      next_target = call.targets[row + step];
    }
    const bool has_target = target >= 0 && target < call.classes;
    const uint4* held = buffers + buffer * packs;
    await_copy(arrived + buffer, parity);

    uint4 raw[kMaxPacks];
    __nv_bfloat162 pair = as_pair(kMinusInfinity | (kMinusInfinity << 16));
#pragma unroll
    for (int i = 0; i < kMaxPacks; ++i) {
      const int pack = thread + i * threads;
      if (pack < packs) {
        raw[i] = held[pack];
        const int64_t left = call.classes - static_cast<int64_t>(pack) * kPack;
        if (left < kPack) {
          raw[i] = keep_first(raw[i], left, kMinusInfinity);
        }
        pair = max_of_pack(pair, raw[i]);
      }
    }
    const float target_score =
        has_target ? widen(reinterpret_cast<const Bf16*>(held)[target]) : 0.0F;
    const float max_of_warp = warp_max(max_of_pair(pair));
    if (lane == 0) {
      maxima[thread / kWarp] = max_of_warp;
    }
    __syncthreads();
    if (thread == 0 && row + kBuffers * step < call.rows) {
      start_copy(buffers + buffer * packs,
                 call.scores + (row + kBuffers * step) * call.stride,
                 row_bytes,
                 arrived + buffer);
    }
    const float row_max = warp_max(lane < warps ? maxima[lane] : -INFINITY);

    float partial_sum = 0;
#pragma unroll
    for (int i = 0; i < kMaxPacks; ++i) {
      if (thread + i * threads < packs) {
        partial_sum += sum_exp2(raw[i], row_max * kLog2OfE);
      }
    }
    // maxima and sums are each written only after a barrier that follows their last use.
    const float sum = block_sum(partial_sum, sums);
    const RowSoftmax softmax = finish_row(call, row, target, target_score, row_max, sum);
    if (call.gradient) {
      Bf16* scores = call.scores + row * call.stride;
#pragma unroll
      for (int i = 0; i < kMaxPacks; ++i) {
        const int pack = thread + i * threads;
        if (pack < packs) {
          const uint4 result =
              target < 0 ? make_uint4(0, 0, 0, 0) : gradient_pack(raw[i], pack, softmax);
          store_pack(scores, pack, result);
        }
      }
      mark_target(scores, target_score, softmax);
    }
    static_assert(kBuffers == 2);
    buffer ^= 1;
    parity ^= buffer == 0 ? 1U : 0U;
  }
}

// ---- longer rows: read twice

__device__ __forceinline__ uint4 load_scores(const CrossEntropyCall& call,
                                             const Bf16* scores,
                                             int64_t pack) {
  const uint4 bits = load_pack(scores, pack);
  const int64_t left = call.classes - pack * kPack;
  return left < kPack ? keep_first(bits, left, kMinusInfinity) : bits;
}

__global__ __launch_bounds__(kMaxThreads) void cross_entropy_streamed(CrossEntropyCall call) {
  __shared__ float maxima[kWarp];
  __shared__ float sums[kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int64_t packs = call.stride / kPack;
  for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
    Bf16* scores = call.scores + row * call.stride;
    const int64_t target = call.targets[row];
    const float target_score = target >= 0 && target < call.classes ? widen(scores[target]) : 0.0F;

    // The sum is kept relative to the running maximum of the thread and scaled down when that
    // rises.
    float running_max = -INFINITY;
    float partial_sum = 0;
    for (int64_t pack = thread; pack < packs; pack += blockDim.x) {
      const uint4 bits = load_scores(call, scores, pack);
      const __nv_bfloat162 none = as_pair(kMinusInfinity | (kMinusInfinity << 16));
      const float new_max = fmaxf(running_max, max_of_pair(max_of_pack(none, bits)));
      if (new_max != -INFINITY) {
        partial_sum = partial_sum * exp2_fast((running_max - new_max) * kLog2OfE) +
                      sum_exp2(bits, new_max * kLog2OfE);
        running_max = new_max;
      }
    }
    const float max_of_warp = warp_max(running_max);
    if (lane == 0) {
      maxima[thread / kWarp] = max_of_warp;
    }
    __syncthreads();
    const float row_max = warp_max(lane < warps ? maxima[lane] : -INFINITY);
    // Where all scores of the row are -inf, the difference of the maxima would be NaN.
    const float mine =
        partial_sum == 0.0F ? 0.0F : partial_sum * exp2_fast((running_max - row_max) * kLog2OfE);
    const float sum = block_sum(mine, sums);
    const RowSoftmax softmax = finish_row(call, row, target, target_score, row_max, sum);
    if (call.gradient) {
      for (int64_t pack = thread; pack < packs; pack += blockDim.x) {
        const uint4 bits = load_scores(call, scores, pack);
        const uint4 result =
            target < 0 ? make_uint4(0, 0, 0, 0) : gradient_pack(bits, pack, softmax);
        store_pack(scores, pack, result);
      }
      mark_target(scores, target_score, softmax);
    }
  }
}

// A kernel that was compiled for an older architecture has no bulk copies, even on a newer GPU.
bool holds_rows() {
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, cross_entropy_held), "cudaFuncGetAttributes");
  return has_bulk_copies() && attributes.ptxVersion >= 90;
}

}  // namespace

void cross_entropy(const CrossEntropyCall& call, Stream stream) {
  require(call.stride > 0 && call.stride % kPack == 0, "a stride that 8 divides");
  require(call.classes > 0 && call.classes <= call.stride, "classes within the stride");
  if (call.rows == 0) {
    return;
  }
  const int64_t packs = call.stride / kPack;
  const int64_t threads = std::min<int64_t>(kMaxThreads, divide_up(packs, kWarp) * kWarp);
  const int64_t bytes = packs * kBuffers * static_cast<int64_t>(sizeof(uint4));
  constexpr int64_t kOtherShared = 1024;  // for the static arrays of the kernel
  const int64_t room = shared_bytes_per_block() - kOtherShared;
  const int64_t places = multiprocessors();
  if (holds_rows() && packs <= threads * kMaxPacks && bytes <= room) {
    check_cuda(cudaFuncSetAttribute(cross_entropy_held,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(bytes)),
               "cudaFuncSetAttribute");
    const int64_t at_once = std::max<int64_t>(1, std::min(room / bytes, kMaxThreads / threads));
    const auto blocks = static_cast<unsigned>(std::min(call.rows, places * at_once));
    cross_entropy_held<<<blocks,
                         static_cast<unsigned>(threads),
                         static_cast<size_t>(bytes),
                         stream>>>(call, static_cast<int>(packs));
  } else {
    const auto blocks = static_cast<unsigned>(std::min(call.rows, 2 * places));
    cross_entropy_streamed<<<blocks, static_cast<unsigned>(threads), 0, stream>>>(call);
  }
  check_launch("cross_entropy");
}

}  // namespace lockstep::kernels
