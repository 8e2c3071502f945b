// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/batch_norm.cuh"

namespace lockstep::kernels {
namespace {

// Four pixels, and the windows that contain them. In both dimensions, window w covers the pixels
// 2 * w - 1 to 2 * w + 1, so windows a and a + 1 contain pixels 2 * a and 2 * a + 1.
struct Quad {
  uint4 gradient[2][2];  // of the windows
  uint2 choice[2][2];
  int64_t place[2][2];  // of the pixels, in packs

  __device__ __forceinline__ void load(const NormBackward& call, unsigned quad, unsigned pack) {
    const auto packs = static_cast<unsigned>(call.channels) / kPack;
    const auto width = static_cast<unsigned>(call.pooling.width) / 2;
    const auto height = static_cast<unsigned>(call.pooling.height) / 2;
    const unsigned a = quad / width % height;
    const unsigned b = quad % width;
    const unsigned image = quad / width / height;
#pragma unroll
    for (unsigned y = 0; y < 2; ++y) {
#pragma unroll
      for (unsigned x = 0; x < 2; ++x) {
        // There is no window after the last one.
        const bool is_there = a + y < height && b + x < width;
        // A window that does not exist is replaced by window (a, b), so that the loads stay inside
        // of the tensor; its gradient is 0, and the choice has no effect.
        const unsigned window = quad + (is_there ? y * width + x : 0);
        const int64_t from = static_cast<int64_t>(window) * packs + pack;
        gradient[y][x] = is_there ? load_pack(call.gradient, from) : make_uint4(0, 0, 0, 0);
        choice[y][x] = reinterpret_cast<const uint2*>(call.pooling.choice)[from];
        const int64_t row =
            (static_cast<int64_t>(image) * 2 * height + 2 * a + y) * 2 * width + 2 * b + x;
        place[y][x] = row * packs + pack;
      }
    }
  }

  // The gradient of a pixel at the input of ReLU: the sum of the gradients of all windows whose
  // maximum it was. A pixel that ReLU set to 0 is never a maximum.
  // Along each axis, an even pixel is the middle of window a. An odd pixel is the last of window a
  // and the first of window a + 1. `position` counts the nine places of a window by rows, as
  // pool_kernel() does.
  template <int kY, int kX>
  __device__ __forceinline__ Floats pixel_gradient() const {
    Floats sum = {};
#pragma unroll
    for (int y = 0; y <= kY; ++y) {
#pragma unroll
      for (int x = 0; x <= kX; ++x) {
        const unsigned position = (y == 0 ? kY + 1 : 0) * 3 + (x == 0 ? kX + 1 : 0);
        const Floats values = widen(gradient[y][x]);
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          const unsigned word = i < 4 ? choice[y][x].x : choice[y][x].y;
          const bool is_chosen = (word >> (8 * (i % 4)) & 0xFFU) == position;
          sum.at[i] += is_chosen ? values.at[i] : 0.0F;
        }
      }
    }
    return sum;
  }

  // work(place of a pixel, its gradient, y, x) for all four.
  template <typename Work>
  __device__ __forceinline__ void each(Work work) const {
    work(place[0][0], pixel_gradient<0, 0>(), 0, 0);
    work(place[0][1], pixel_gradient<0, 1>(), 0, 1);
    work(place[1][0], pixel_gradient<1, 0>(), 1, 0);
    work(place[1][1], pixel_gradient<1, 1>(), 1, 1);
  }
};

__global__ void __launch_bounds__(kNormThreads, 2) pooled_reduce_kernel(NormBackward call) {
  const auto pack = static_cast<unsigned>(norm_pack());
  const NormRows rows = norm_rows();
  const Floats mean = load_floats(call.main.values.mean, pack);
  Floats sums[2] = {};
  // From the last quad to the first, for the L2 cache (NormRows).
  for (int64_t quad = call.rows / 4 - 1 - rows.first; quad >= 0; quad -= rows.step) {
    Quad at;
    at.load(call, static_cast<unsigned>(quad), pack);
    uint4 input[2][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      input[i / 2][i % 2] = load_pack(call.main.input, at.place[i / 2][i % 2]);
    }
    at.each([&](int64_t /*place*/, const Floats& gradient, int y, int x) {
      const Floats values = widen(input[y][x]);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        sums[0].at[i] += gradient.at[i];
        sums[1].at[i] = fmaf(gradient.at[i], values.at[i] - mean.at[i], sums[1].at[i]);
      }
    });
  }
  __shared__ double total[2][kNormChannels];
  if (!sum_over_rows(sums, total, call.workspace)) {
    return;
  }
  const int thread = static_cast<int>(threadIdx.y * kNormPacks + threadIdx.x);
  if (thread < kNormChannels) {
    finish_norm(call.main,
                static_cast<int64_t>(blockIdx.x) * kNormChannels + thread,
                call.channels,
                static_cast<double>(call.rows),
                total[0][thread],
                total[1][thread]);
  }
}

__global__ void __launch_bounds__(kNormThreads, 2) pooled_apply_kernel(NormBackward call) {
  const auto pack = static_cast<unsigned>(norm_pack());
  const NormRows rows = norm_rows();
  const NormFactors factors = load_factors(call.main.factors, call.channels, pack);
  for (int64_t quad = rows.first; quad < call.rows / 4; quad += rows.step) {
    Quad at;
    at.load(call, static_cast<unsigned>(quad), pack);
    uint4 input[2][2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      input[i / 2][i % 2] = load_pack(call.main.input, at.place[i / 2][i % 2]);
    }
    at.each([&](int64_t place, const Floats& gradient, int y, int x) {
      store_pack(call.main.input_gradient,
                 place,
                 normalised_gradient(factors, gradient, widen(input[y][x])));
    });
  }
}

}  // namespace

void pooled_norm_backward(const NormBackward& call, Stream stream) {
  require(call.shortcut.input == nullptr && call.masked == nullptr &&
              call.pooling.height % 2 == 0 && call.pooling.width % 2 == 0 &&
              call.rows / 4 <= UINT32_MAX,
          "pooling of one batch norm, with even sizes");
  const dim3 threads(kNormPacks, kNormRows);
  pooled_reduce_kernel<<<norm_grid(call.rows / 4, call.channels, 2), threads, 0, stream>>>(call);
  check_launch("pooled_norm_backward, sums");
  pooled_apply_kernel<<<norm_grid(call.rows / 4, call.channels, 8), threads, 0, stream>>>(call);
  check_launch("pooled_norm_backward");
}

}  // namespace lockstep::kernels
