// SPDX-License-Identifier: Apache-2.0
#include "kernels/batch_norm.cuh"

namespace lockstep::kernels {
namespace {

// Where ReLU's sign comes from, and whether the gradient comes through pooling.
enum class Way { Mask, Sign, Pooled };

// The gradient of eight numbers behind ReLU (and pooling).
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

// Each pixel lies in one, two or four windows; in each it counts if it was the one chosen, which a
// pixel that ReLU stopped never was.
template <>
struct Behind<Way::Pooled> {
  Floats sum;

  __device__ __forceinline__ void load(const NormBackward& call, int64_t place) {
    // Places fit 32 bits: batch_norm_backward() has looked.
    const auto packs = static_cast<unsigned>(call.channels) / kPack;
    const auto row = static_cast<unsigned>(place) / packs;
    const unsigned pack = static_cast<unsigned>(place) % packs;
    const auto width = static_cast<unsigned>(call.pooling.width);
    const auto height = static_cast<unsigned>(call.pooling.height);
    const unsigned x = row % width;
    const unsigned y = row / width % height;
    const unsigned image = row / width / height;
    sum = {};
    // Windows cover 2 * p - 1 to 2 * p + 1.
    for (unsigned py = y / 2; py <= (y + 1) / 2 && py < height / 2; ++py) {
      for (unsigned px = x / 2; px <= (x + 1) / 2 && px < width / 2; ++px) {
        const unsigned position = (y + 1 - 2 * py) * 3 + x + 1 - 2 * px;
        const unsigned from = ((image * (height / 2) + py) * (width / 2) + px) * packs + pack;
        const Floats gradient = widen(load_pack(call.gradient, from));
        const uint2 chosen = reinterpret_cast<const uint2*>(call.pooling.choice)[from];
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          const unsigned word = i < 4 ? chosen.x : chosen.y;
          if ((word >> (8 * (i % 4)) & 0xFFU) == position) {
            sum.at[i] += gradient.at[i];
          }
        }
      }
    }
  }

  __device__ __forceinline__ Floats values(const Floats& /*input*/,
                                           const Floats& /*scale*/,
                                           const Floats& /*shift*/) const {
    return sum;
  }
};

// Gradients of weight and bias, and the factors, from both sums.
__device__ void finish(const NormBack& norm,
                       int64_t channel,
                       double rows,
                       int64_t channels,
                       double gradients,
                       double products) {
  const float inverse = norm.values.inverse[channel];
  const float mean = norm.values.mean[channel];
  // The products were taken with what is left of the input without its mean.
  const double normed = products * static_cast<double>(inverse);
  norm.weight_gradient[channel] = static_cast<float>(normed);
  norm.bias_gradient[channel] = static_cast<float>(gradients);
  const auto scale = static_cast<double>(norm.values.scale[channel]);
  const double slope = normed / rows * static_cast<double>(inverse);
  norm.factors[channel] = static_cast<float>(scale);
  norm.factors[channels + channel] = static_cast<float>(-scale * slope);
  norm.factors[2 * channels + channel] =
      static_cast<float>(scale * (slope * static_cast<double>(mean) - gradients / rows));
}

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
  finish(call.main, channel, all, call.channels, total[0][thread], total[1][thread]);
  if constexpr (kAside) {
    finish(call.aside, channel, all, call.channels, total[0][thread], total[2][thread]);
  }
}

struct Factors {
  Floats gradient;
  Floats input;
  Floats rest;
};

__device__ __forceinline__ Factors load_factors(const float* factors,
                                                int64_t channels,
                                                int64_t pack) {
  return {load_floats(factors, pack),
          load_floats(factors + channels, pack),
          load_floats(factors + 2 * channels, pack)};
}

__device__ __forceinline__ uint4 with(const Factors& factors,
                                      const Floats& gradient,
                                      const Floats& input) {
  Floats result;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    result.at[i] = fmaf(factors.gradient.at[i],
                        gradient.at[i],
                        fmaf(factors.input.at[i], input.at[i], factors.rest.at[i]));
  }
  return narrow(result);
}

enum class Also { Nothing, Aside, Masked };

template <Way kWay, Also kAlso>
__global__ void __launch_bounds__(kNormThreads, kAlso == Also::Aside ? 2 : 3)
    apply_kernel(NormBackward call) {
  constexpr int kAtOnce = 2;
  const int64_t packs = call.channels / kPack;
  const int64_t pack = norm_pack();
  const NormRows rows = norm_rows();
  const Factors factors = load_factors(call.main.factors, call.channels, pack);
  Floats scale = {};
  Floats shift = {};
  if constexpr (kWay == Way::Sign) {
    scale = load_floats(call.main.values.scale, pack);
    shift = load_floats(call.main.values.shift, pack);
  }
  Factors aside_factors = {};
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
    require(
        call.aside.input == nullptr && call.pooling.height % 2 == 0 && call.pooling.width % 2 == 0,
        "pooling of one batch norm, with even sizes");
    run<Way::Pooled>(call, stream);
  } else if (call.mask != nullptr) {
    run<Way::Mask>(call, stream);
  } else {
    require(call.aside.input == nullptr && call.masked == nullptr,
            "a mask where something was added");
    run<Way::Sign>(call, stream);
  }
}

}  // namespace lockstep::kernels
