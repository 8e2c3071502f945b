// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/batch_norm.cuh"

namespace lockstep::kernels {
namespace {

// How to find the elements with a nonzero derivative of ReLU: from the stored mask, or from the
// sign of the recomputed output. The latter is possible only if nothing was added before ReLU.
enum class ReluMask { Stored, Recomputed };

// dy of eight channels: the gradient of the output where ReLU has a nonzero derivative, else 0.
template <ReluMask kMask>
struct ReluGradient {
  uint4 gradient;
  unsigned mask;

  __device__ __forceinline__ void load(const NormBackward& call, int64_t place) {
    gradient = load_pack(call.gradient, place);
    mask = kMask == ReluMask::Stored ? call.mask[place] : 0xFFU;
  }

  __device__ __forceinline__ Floats values(const Floats& input,
                                           const Floats& scale,
                                           const Floats& shift) const {
    Floats result = widen(gradient);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const bool passes = kMask == ReluMask::Stored
                              ? (mask >> i & 1U) != 0
                              : fmaf(input.at[i], scale.at[i], shift.at[i]) > 0;
      result.at[i] = passes ? result.at[i] : 0.0F;
    }
    return result;
  }
};

// First kernel: sum(dy) and sum(dy * (x - mean)) of this batch norm and, with kShortcut, of the one
// on the shortcut, which has the same dy. The mean is subtracted first, because sum(dy * x) - mean
// * sum(dy) would cancel.
template <ReluMask kMask, bool kShortcut>
__global__ void __launch_bounds__(kNormThreads, 3) reduce_kernel(NormBackward call) {
  constexpr int kSums = kShortcut ? 3 : 2;
  // Two rows are loaded before either is used, so that both loads are in flight.
  constexpr int kAtOnce = 2;
  const int64_t packs = call.channels / kPack;
  const int64_t pack = norm_pack();
  const NormRows rows = norm_rows();
  const Floats mean = load_floats(call.main.values.mean, pack);
  Floats scale = {};
  Floats shift = {};
  if constexpr (kMask == ReluMask::Recomputed) {
    scale = load_floats(call.main.values.scale, pack);
    shift = load_floats(call.main.values.shift, pack);
  }
  Floats shortcut_mean = {};
  if constexpr (kShortcut) {
    shortcut_mean = load_floats(call.shortcut.values.mean, pack);
  }
  Floats sums[kSums] = {};
  // From the last row to the first, as in forward.
  for (int64_t last = call.rows - 1 - rows.first; last >= 0; last -= kAtOnce * rows.step) {
    ReluGradient<kMask> relu_gradient[kAtOnce];
    uint4 input[kAtOnce];
    uint4 shortcut[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t row = last - i * rows.step;
      if (row >= 0) {
        relu_gradient[i].load(call, row * packs + pack);
        input[i] = load_pack(call.main.input, row * packs + pack);
        if constexpr (kShortcut) {
          shortcut[i] = load_pack(call.shortcut.input, row * packs + pack);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (last - i * rows.step < 0) {
        break;
      }
      const Floats values = widen(input[i]);
      const Floats gradient = relu_gradient[i].values(values, scale, shift);
      Floats others = {};
      if constexpr (kShortcut) {
        others = widen(shortcut[i]);
      }
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        sums[0].at[j] += gradient.at[j];
        sums[1].at[j] = fmaf(gradient.at[j], values.at[j] - mean.at[j], sums[1].at[j]);
        if constexpr (kShortcut) {
          sums[2].at[j] = fmaf(gradient.at[j], others.at[j] - shortcut_mean.at[j], sums[2].at[j]);
        }
      }
    }
  }
  __shared__ double total[kSums][kNormChannels];
  if (!sum_over_rows(sums, total, call.workspace)) {
    return;
  }
  const int thread = static_cast<int>(threadIdx.y * kNormPacks + threadIdx.x);
  if (thread >= kNormChannels) {
    return;
  }
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kNormChannels + thread;
  const auto all = static_cast<double>(call.rows);
  finish_norm(call.main, channel, call.channels, all, total[0][thread], total[1][thread]);
  if constexpr (kShortcut) {
    finish_norm(call.shortcut, channel, call.channels, all, total[0][thread], total[2][thread]);
  }
}

// Additional output of the second kernel: dx of the batch norm on the shortcut, or dy itself, which
// is the gradient of an identity shortcut.
enum class Extra { None, Shortcut, Masked };

template <ReluMask kMask, Extra kExtra>
__global__ void __launch_bounds__(kNormThreads, kExtra == Extra::Shortcut ? 2 : 3)
    apply_kernel(NormBackward call) {
  constexpr int kAtOnce = 2;
  const int64_t packs = call.channels / kPack;
  const int64_t pack = norm_pack();
  const NormRows rows = norm_rows();
  const NormFactors factors = load_factors(call.main.factors, call.channels, pack);
  Floats scale = {};
  Floats shift = {};
  if constexpr (kMask == ReluMask::Recomputed) {
    scale = load_floats(call.main.values.scale, pack);
    shift = load_floats(call.main.values.shift, pack);
  }
  NormFactors shortcut_factors = {};
  if constexpr (kExtra == Extra::Shortcut) {
    shortcut_factors = load_factors(call.shortcut.factors, call.channels, pack);
  }
  for (int64_t first = rows.first; first < call.rows; first += kAtOnce * rows.step) {
    ReluGradient<kMask> relu_gradient[kAtOnce];
    uint4 input[kAtOnce];
    uint4 shortcut[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t row = first + i * rows.step;
      if (row < call.rows) {
        relu_gradient[i].load(call, row * packs + pack);
        input[i] = load_pack(call.main.input, row * packs + pack);
        if constexpr (kExtra == Extra::Shortcut) {
          shortcut[i] = load_pack(call.shortcut.input, row * packs + pack);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t row = first + i * rows.step;
      if (row >= call.rows) {
        break;
      }
      const int64_t place = row * packs + pack;
      const Floats values = widen(input[i]);
      const Floats gradient = relu_gradient[i].values(values, scale, shift);
      store_pack(call.main.input_gradient, place, normalised_gradient(factors, gradient, values));
      if constexpr (kExtra == Extra::Shortcut) {
        store_pack(call.shortcut.input_gradient,
                   place,
                   normalised_gradient(shortcut_factors, gradient, widen(shortcut[i])));
      } else if constexpr (kExtra == Extra::Masked) {
        store_pack(call.masked, place, narrow(gradient));
      }
    }
  }
}

// A shortcut exists only if there is a stored mask.
template <ReluMask kMask>
void run(const NormBackward& call, Stream stream) {
  const dim3 threads(kNormPacks, kNormRows);
  const dim3 few = norm_grid(call.rows, call.channels, 3);
  const dim3 many = norm_grid(call.rows, call.channels, 12);
  if constexpr (kMask == ReluMask::Stored) {
    if (call.shortcut.input != nullptr) {
      reduce_kernel<kMask, true><<<few, threads, 0, stream>>>(call);
      check_launch("batch_norm_backward, sums");
      apply_kernel<kMask, Extra::Shortcut><<<many, threads, 0, stream>>>(call);
      check_launch("batch_norm_backward");
      return;
    }
  }
  reduce_kernel<kMask, false><<<few, threads, 0, stream>>>(call);
  check_launch("batch_norm_backward, sums");
  if (kMask == ReluMask::Stored && call.masked != nullptr) {
    apply_kernel<kMask, Extra::Masked><<<many, threads, 0, stream>>>(call);
  } else {
    apply_kernel<kMask, Extra::None><<<many, threads, 0, stream>>>(call);
  }
  check_launch("batch_norm_backward");
}

}  // namespace

void batch_norm_backward(const NormBackward& call, Stream stream) {
  require(call.rows > 0 && call.channels % kNormChannels == 0 &&
              call.channels / kNormChannels <= kNormCounters / 4,
          "batch norm over a multiple of 64 channels");
  if (call.pooling.choice != nullptr) {
    pooled_norm_backward(call, stream);
  } else if (call.mask != nullptr) {
    run<ReluMask::Stored>(call, stream);
  } else {
    require(call.shortcut.input == nullptr && call.masked == nullptr,
            "a mask where something was added");
    run<ReluMask::Recomputed>(call, stream);
  }
}

}  // namespace lockstep::kernels
