// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "training/kernels/cross_entropy.h"
#include "training/kernels/device.cuh"
#include "training/kernels/launch.h"

namespace lockstep::kernels {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kMostPacks = 7;  // that a thread holds in registers
constexpr int kBuffers = 2;    // rows in shared memory, on their way
constexpr float kLog2OfE = 1.4426950408889634F;
constexpr uint32_t kLeast = 0xFF80U;  // minus infinity, a bfloat16

__device__ __forceinline__ float power_of_two(float exponent) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
  return result;
}

__device__ __forceinline__ __nv_bfloat162 as_pair(uint32_t word) {
  return *reinterpret_cast<const __nv_bfloat162*>(&word);
}

__device__ __forceinline__ __nv_bfloat162 larger(__nv_bfloat162 most, uint4 bits) {
  const __nv_bfloat162 low = __hmax2(as_pair(bits.x), as_pair(bits.y));
  const __nv_bfloat162 high = __hmax2(as_pair(bits.z), as_pair(bits.w));
  return __hmax2(most, __hmax2(low, high));
}

__device__ __forceinline__ float larger_half(__nv_bfloat162 most) {
  return fmaxf(__low2float(most), __high2float(most));
}

// The sum of 2^(x log2(e) - offset).
__device__ __forceinline__ float sum_of_powers(uint4 bits, float offset) {
  const Floats values = widen(bits);
  float powers[kPack];
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    powers[j] = power_of_two(fmaf(values.at[j], kLog2OfE, -offset));
  }
  return ((powers[0] + powers[1]) + (powers[2] + powers[3])) +
         ((powers[4] + powers[5]) + (powers[6] + powers[7]));
}

// The first `count` elements; `filler` twice in place of the others.
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

// What a row's gradient is made with.
struct RowEnd {
  float offset = 0;  // the base 2 logarithm of the sum of e^x
  float factor = 0;
  int64_t target = -1;
  int64_t classes = 0;
};

__device__ __forceinline__ uint4 gradient_pack(uint4 bits, int64_t pack, const RowEnd& end) {
  Floats values = widen(bits);
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    values.at[j] = power_of_two(fmaf(values.at[j], kLog2OfE, -end.offset)) * end.factor;
  }
  const uint4 result = narrow(values);
  const int64_t left = end.classes - pack * kPack;
  return left < kPack ? keep_first(result, left, 0) : result;
}

// Writes the loss, from one thread, and finds what the gradient needs. `aimed` is the target's
// score.
__device__ __forceinline__ RowEnd finish_row(
    const CrossEntropyCall& call, int64_t row, int64_t target, float aimed, float most, float sum) {
  const float nan = __int_as_float(0x7FC00000);
  const bool is_wrong = target >= call.classes;
  if (threadIdx.x == 0 && call.losses != nullptr) {
    const float loss = most + logf(sum) - aimed;
    call.losses[row] = target < 0 ? 0.0F : is_wrong ? nan : loss;
  }
  return {.offset = fmaf(most, kLog2OfE, log2f(sum)),
          .factor = is_wrong ? nan : call.scale,
          .target = target,
          .classes = call.classes};
}

// After the thread that owns the target's pack has written it.
__device__ __forceinline__ void mark_target(Bf16* scores, float aimed, const RowEnd& end) {
  if (end.target < 0 || end.target >= end.classes) {
    return;
  }
  const auto owner = static_cast<unsigned>((end.target / kPack) % blockDim.x);
  if (threadIdx.x == owner) {
    const float chance = power_of_two(fmaf(aimed, kLog2OfE, -end.offset));
    scores[end.target] = narrow((chance - 1.0F) * end.factor);
  }
}

// ---- rows that fit: copied to shared memory by the copy engine while the rows before are worked
// on

__device__ __forceinline__ uint32_t shared_address(const void* place) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(place));
}

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
// for the row after the next before the arithmetic begins.
__global__ __launch_bounds__(kMostThreads, 1) void cross_entropy_held(CrossEntropyCall call,
                                                                      int packs) {
  extern __shared__ __align__(128) uint4 buffers[];  // [kBuffers, packs]
  __shared__ __align__(8) uint64_t arrived[kBuffers];
  __shared__ float for_most[kWarp];
  __shared__ float for_sum[kWarp];
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

    uint4 raw[kMostPacks];
    __nv_bfloat162 pair = as_pair(kLeast | (kLeast << 16));
#pragma unroll
    for (int i = 0; i < kMostPacks; ++i) {
      const int pack = thread + i * threads;
      if (pack < packs) {
        raw[i] = held[pack];
        const int64_t left = call.classes - static_cast<int64_t>(pack) * kPack;
        if (left < kPack) {
          raw[i] = keep_first(raw[i], left, kLeast);
        }
        pair = larger(pair, raw[i]);
      }
    }
    const float aimed = has_target ? widen(reinterpret_cast<const Bf16*>(held)[target]) : 0.0F;
    const float warp_most = warp_max(larger_half(pair));
    if (lane == 0) {
      for_most[thread / kWarp] = warp_most;
    }
    __syncthreads();
    if (thread == 0 && row + kBuffers * step < call.rows) {
      start_copy(buffers + buffer * packs,
                 call.scores + (row + kBuffers * step) * call.stride,
                 row_bytes,
                 arrived + buffer);
    }
    const float most = warp_max(lane < warps ? for_most[lane] : -INFINITY);

    float part = 0;
#pragma unroll
    for (int i = 0; i < kMostPacks; ++i) {
      if (thread + i * threads < packs) {
        part += sum_of_powers(raw[i], most * kLog2OfE);
      }
    }
    // for_most and for_sum are each written only after a barrier that follows their last use.
    const float sum = block_sum(part, for_sum);
    const RowEnd end = finish_row(call, row, target, aimed, most, sum);
    if (call.gradient) {
      Bf16* scores = call.scores + row * call.stride;
#pragma unroll
      for (int i = 0; i < kMostPacks; ++i) {
        const int pack = thread + i * threads;
        if (pack < packs) {
          const uint4 result =
              target < 0 ? make_uint4(0, 0, 0, 0) : gradient_pack(raw[i], pack, end);
          store_pack(scores, pack, result);
        }
      }
      mark_target(scores, aimed, end);
    }
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
  return left < kPack ? keep_first(bits, left, kLeast) : bits;
}

__global__ __launch_bounds__(kMostThreads) void cross_entropy_streamed(CrossEntropyCall call) {
  __shared__ float for_most[kWarp];
  __shared__ float for_sum[kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int64_t packs = call.stride / kPack;
  for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
    Bf16* scores = call.scores + row * call.stride;
    const int64_t target = call.targets[row];
    const float aimed = target >= 0 && target < call.classes ? widen(scores[target]) : 0.0F;

    // The sum is kept relative to the largest score that the thread has seen.
    float seen = -INFINITY;
    float part = 0;
    for (int64_t pack = thread; pack < packs; pack += blockDim.x) {
      const uint4 bits = load_scores(call, scores, pack);
      const __nv_bfloat162 none = as_pair(kLeast | (kLeast << 16));
      const float most = fmaxf(seen, larger_half(larger(none, bits)));
      if (most != -INFINITY) {
        part = part * power_of_two((seen - most) * kLog2OfE) + sum_of_powers(bits, most * kLog2OfE);
        seen = most;
      }
    }
    const float warp_most = warp_max(seen);
    if (lane == 0) {
      for_most[thread / kWarp] = warp_most;
    }
    __syncthreads();
    const float most = warp_max(lane < warps ? for_most[lane] : -INFINITY);
    const float mine = part == 0.0F ? 0.0F : part * power_of_two((seen - most) * kLog2OfE);
    const float sum = block_sum(mine, for_sum);
    const RowEnd end = finish_row(call, row, target, aimed, most, sum);
    if (call.gradient) {
      for (int64_t pack = thread; pack < packs; pack += blockDim.x) {
        const uint4 bits = load_scores(call, scores, pack);
        const uint4 result = target < 0 ? make_uint4(0, 0, 0, 0) : gradient_pack(bits, pack, end);
        store_pack(scores, pack, result);
      }
      mark_target(scores, aimed, end);
    }
  }
}

// Built for an older chip, the kernel has no bulk copies, whatever it runs on.
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
  const int64_t threads = std::min<int64_t>(kMostThreads, divide_up(packs, kWarp) * kWarp);
  const int64_t bytes = packs * kBuffers * static_cast<int64_t>(sizeof(uint4));
  constexpr int64_t kOtherShared = 1024;
  const int64_t room = shared_bytes_per_block() - kOtherShared;
  const int64_t places = multiprocessors();
  if (holds_rows() && packs <= threads * kMostPacks && bytes <= room) {
    check_cuda(cudaFuncSetAttribute(cross_entropy_held,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(bytes)),
               "cudaFuncSetAttribute");
    const int64_t at_once = std::max<int64_t>(1, std::min(room / bytes, kMostThreads / threads));
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
