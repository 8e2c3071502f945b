// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/batch_norm.cuh"

namespace lockstep::kernels {
namespace {

// Where ReLU's sign comes from.
enum class Way { Mask, Sign };

// The gradient of eight numbers behind ReLU.
template <Way kWay>
struct Behind {
  uint4 gradient;
  unsigned mask;

  __device__ __forceinline__ void load(const NormBackward& call, int64_t place) {
    gradient = load_pack(call.gradient, place);
    mask = kWay == Way::Mask ? call.mask[place] : 0xFFU;
  }

  __device__ __forceinline__ Floats values(const Floats& input,
                                           const Floats& scale,
                                           const Floats& shift) const {
    Floats result = widen(gradient);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const bool passes = kWay == Way::Mask ? (mask >> i & 1U) != 0
                                            : fmaf(input.at[i], scale.at[i], shift.at[i]) > 0;
      result.at[i] = passes ? result.at[i] : 0.0F;
    }
    return result;
  }
};

template <Way kWay, bool kAside>
__global__ void __launch_bounds__(kNormThreads, 3) reduce_kernel(NormBackward call) {
  constexpr int kSums = kAside ? 3 : 2;
  constexpr int kAtOnce = 2;
  const int64_t packs = call.channels / kPack;
  const int64_t pack = norm_pack();
  const NormRows rows = norm_rows();
  const Floats mean = load_floats(call.main.values.mean, pack);
  Floats scale = {};
  Floats shift = {};
  if constexpr (kWay == Way::Sign) {
    scale = load_floats(call.main.values.scale, pack);
    shift = load_floats(call.main.values.shift, pack);
  }
  Floats aside_mean = {};
  if constexpr (kAside) {
    aside_mean = load_floats(call.aside.values.mean, pack);
  }
  Floats sums[kSums] = {};
  // From the last row back, as in forward.
  for (int64_t last = call.rows - 1 - rows.first; last >= 0; last -= kAtOnce * rows.step) {
    Behind<kWay> behind[kAtOnce];
    uint4 input[kAtOnce];
    uint4 aside[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t row = last - i * rows.step;
      if (row >= 0) {
        behind[i].load(call, row * packs + pack);
        input[i] = load_pack(call.main.input, row * packs + pack);
        if constexpr (kAside) {
          aside[i] = load_pack(call.aside.input, row * packs + pack);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (last - i * rows.step < 0) {
        break;
      }
      const Floats values = widen(input[i]);
      const Floats gradient = behind[i].values(values, scale, shift);
      Floats others = {};
      if constexpr (kAside) {
        others = widen(aside[i]);
      }
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        sums[0].at[j] += gradient.at[j];
        sums[1].at[j] = fmaf(gradient.at[j], values.at[j] - mean.at[j], sums[1].at[j]);
        if constexpr (kAside) {
          sums[2].at[j] = fmaf(gradient.at[j], others.at[j] - aside_mean.at[j], sums[2].at[j]);
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
  if constexpr (kAside) {
    finish_norm(call.aside, channel, call.channels, all, total[0][thread], total[2][thread]);
  }
}

enum class Also { Nothing, Aside, Masked };

template <Way kWay, Also kAlso>
__global__ void __launch_bounds__(kNormThreads, kAlso == Also::Aside ? 2 : 3)
    apply_kernel(NormBackward call) {
  constexpr int kAtOnce = 2;
  const int64_t packs = call.channels / kPack;
  const int64_t pack = norm_pack();
  const NormRows rows = norm_rows();
  const NormFactors factors = load_factors(call.main.factors, call.channels, pack);
  Floats scale = {};
  Floats shift = {};
  if constexpr (kWay == Way::Sign) {
    scale = load_floats(call.main.values.scale, pack);
    shift = load_floats(call.main.values.shift, pack);
  }
  NormFactors aside_factors = {};
  if constexpr (kAlso == Also::Aside) {
    aside_factors = load_factors(call.aside.factors, call.channels, pack);
  }
  for (int64_t first = rows.first; first < call.rows; first += kAtOnce * rows.step) {
    Behind<kWay> behind[kAtOnce];
    uint4 input[kAtOnce];
    uint4 aside[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t row = first + i * rows.step;
      if (row < call.rows) {
        behind[i].load(call, row * packs + pack);
        input[i] = load_pack(call.main.input, row * packs + pack);
        if constexpr (kAlso == Also::Aside) {
          aside[i] = load_pack(call.aside.input, row * packs + pack);
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
      const Floats gradient = behind[i].values(values, scale, shift);
      store_pack(call.main.input_gradient, place, with(factors, gradient, values));
      if constexpr (kAlso == Also::Aside) {
        store_pack(
            call.aside.input_gradient, place, with(aside_factors, gradient, widen(aside[i])));
      } else if constexpr (kAlso == Also::Masked) {
        store_pack(call.masked, place, narrow(gradient));
      }
    }
  }
}

// Something was added only where there is a mask.
template <Way kWay>
void run(const NormBackward& call, Stream stream) {
  const dim3 threads(kNormPacks, kNormRows);
  const dim3 few = norm_grid(call.rows, call.channels, 3);
  const dim3 many = norm_grid(call.rows, call.channels, 12);
  if constexpr (kWay == Way::Mask) {
    if (call.aside.input != nullptr) {
      reduce_kernel<kWay, true><<<few, threads, 0, stream>>>(call);
      check_launch("batch_norm_backward, sums");
      apply_kernel<kWay, Also::Aside><<<many, threads, 0, stream>>>(call);
      check_launch("batch_norm_backward");
      return;
    }
  }
  reduce_kernel<kWay, false><<<few, threads, 0, stream>>>(call);
  check_launch("batch_norm_backward, sums");
  if (kWay == Way::Mask && call.masked != nullptr) {
    apply_kernel<kWay, Also::Masked><<<many, threads, 0, stream>>>(call);
  } else {
    apply_kernel<kWay, Also::Nothing><<<many, threads, 0, stream>>>(call);
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
    run<Way::Mask>(call, stream);
  } else {
    require(call.aside.input == nullptr && call.masked == nullptr,
            "a mask where something was added");
    run<Way::Sign>(call, stream);
  }
}

}  // namespace lockstep::kernels
