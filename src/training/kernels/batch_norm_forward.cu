// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/batch_norm.cuh"

namespace lockstep::kernels {
namespace {

// Rows that a thread loads before it adds the first one, so that all loads are in flight together.
constexpr int kUnroll = 4;

__global__ void __launch_bounds__(kNormThreads, 4) statistics_kernel(NormStatistics call) {
  const int64_t packs = call.channels / kPack;
  const int64_t pack = norm_pack();
  const NormRows rows = norm_rows();
  Floats sums[2] = {};
  // Sums are those of x - x0, where x0 is the first pixel of the channel: var = E[(x - x0)^2] -
  // E[x - x0]^2 holds for every x0. With x0 = 0 and a large mean, the subtraction would lose all
  // digits of the variance.
  const Floats first = widen(load_pack(call.input, pack));
  const auto count = [&sums, &first](uint4 bits) {
    const Floats values = widen(bits);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const float value = values.at[i] - first.at[i];
      sums[0].at[i] += value;
      sums[1].at[i] = fmaf(value, value, sums[1].at[i]);
    }
  };
  // From the last row to the first: the previous convolution wrote the last rows last.
  int64_t row = call.rows - 1 - rows.first;
  for (; row >= (kUnroll - 1) * rows.step; row -= kUnroll * rows.step) {
    uint4 bits[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      bits[i] = load_pack(call.input, (row - i * rows.step) * packs + pack);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      count(bits[i]);
    }
  }
  for (; row >= 0; row -= rows.step) {
    count(load_pack(call.input, row * packs + pack));
  }
  __shared__ double total[2][kNormChannels];
  if (!sum_over_rows(sums, total, call.workspace)) {
    return;
  }
  const int thread = static_cast<int>(threadIdx.y * kNormPacks + threadIdx.x);
  if (thread >= kNormChannels) {
    return;
  }
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kNormChannels + thread;
  const auto row_count = static_cast<double>(call.rows);
  const double mean_shifted = total[0][thread] / row_count;
  const double mean = mean_shifted + static_cast<double>(widen(call.input[channel]));
  const double raw_variance = total[1][thread] / row_count - mean_shifted * mean_shifted;
  // Rounding can make the variance negative. The comparison keeps NaN, which fmax() would drop.
  const double variance = raw_variance < 0 ? 0.0 : raw_variance;
  const auto rstd = static_cast<float>(rsqrt(variance + static_cast<double>(call.epsilon)));
  const float scale = call.weight[channel] * rstd;
  call.values.mean[channel] = static_cast<float>(mean);
  call.values.rstd[channel] = rstd;
  call.values.scale[channel] = scale;
  call.values.shift[channel] = call.bias[channel] - static_cast<float>(mean) * scale;
  if (call.running_mean != nullptr) {
    // As in PyTorch: the batch is normalized with the biased variance, and the running average
    // takes the unbiased one.
    const double unbiased = variance * row_count / fmax(row_count - 1, 1.0);
    float& running_mean = call.running_mean[channel];
    float& running_variance = call.running_variance[channel];
    running_mean += call.momentum * (static_cast<float>(mean) - running_mean);
    running_variance += call.momentum * (static_cast<float>(unbiased) - running_variance);
  }
  if (call.batches != nullptr && channel == 0) {
    ++*call.batches;
  }
}

// The addend before ReLU at the end of a residual block: none, the input of the block, or its
// projection, whose batch norm is applied here, too.
enum class Addend { None, Plain, Normed };

template <Addend kAddend, bool kMask>
__global__ void __launch_bounds__(kNormThreads, 4) forward_kernel(NormForward call) {
  constexpr int kAtOnce = 2;
  const int64_t packs = call.channels / kPack;
  const int64_t pack = norm_pack();
  const NormRows rows = norm_rows();
  const Floats scale = load_floats(call.values.scale, pack);
  Floats shift = load_floats(call.values.shift, pack);
  Floats addend_scale = {};
  if constexpr (kAddend == Addend::Normed) {
    addend_scale = load_floats(call.addend_values.scale, pack);
    // Both shifts are constants of the channel, so they are added in advance.
    add_to(shift, load_floats(call.addend_values.shift, pack));
  }
  for (int64_t first = rows.first; first < call.rows; first += kAtOnce * rows.step) {
    uint4 input[kAtOnce];
    uint4 addend[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t row = first + i * rows.step;
      if (row < call.rows) {
        input[i] = load_pack(call.input, row * packs + pack);
        if constexpr (kAddend != Addend::None) {
          addend[i] = load_pack(call.addend, row * packs + pack);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t row = first + i * rows.step;
      if (row >= call.rows) {
        break;
      }
      Floats values = widen(input[i]);
      Floats added = {};
      if constexpr (kAddend != Addend::None) {
        added = widen(addend[i]);
      }
      unsigned bits = 0;
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        float value = fmaf(values.at[j], scale.at[j], shift.at[j]);
        if constexpr (kAddend == Addend::Plain) {
          value += added.at[j];
        } else if constexpr (kAddend == Addend::Normed) {
          value = fmaf(added.at[j], addend_scale.at[j], value);
        }
        // One bit per element instead of two bytes: backward then needs no output of this layer.
        bits |= value > 0 ? 1U << j : 0U;
        values.at[j] = value < 0 ? 0.0F : value;  // keeps NaN
      }
      store_pack(call.output, row * packs + pack, narrow(values));
      if constexpr (kMask) {
        call.mask[row * packs + pack] = static_cast<uint8_t>(bits);
      }
    }
  }
}

template <Addend kAddend>
void launch_forward(const NormForward& call, dim3 grid, Stream stream) {
  const dim3 threads(kNormPacks, kNormRows);
  if (call.mask != nullptr) {
    forward_kernel<kAddend, true><<<grid, threads, 0, stream>>>(call);
  } else {
    forward_kernel<kAddend, false><<<grid, threads, 0, stream>>>(call);
  }
}

}  // namespace

int64_t batch_norm_workspace() {
  // Maximum number of blocks of norm_grid() for all channels, rounded up for each 64 channels.
  const int64_t blocks = 4LL * multiprocessors() + kNormCounters / 4;
  return kNormCounters + blocks * kMaxNormSums * kNormChannels * 4;
}

void batch_norm_statistics(const NormStatistics& call, Stream stream) {
  require(call.rows > 0 && call.channels % kNormChannels == 0 &&
              call.channels / kNormChannels <= kNormCounters / 4,
          "batch norm over a multiple of 64 channels");
  const dim3 grid = norm_grid(call.rows, call.channels, 4);
  statistics_kernel<<<grid, dim3(kNormPacks, kNormRows), 0, stream>>>(call);
  check_launch("batch_norm_statistics");
}

void batch_norm_forward(const NormForward& call, Stream stream) {
  require(call.rows > 0 && call.channels % kNormChannels == 0,
          "batch norm over a multiple of 64 channels");
  const dim3 grid = norm_grid(call.rows, call.channels, 16);
  if (call.addend == nullptr) {
    launch_forward<Addend::None>(call, grid, stream);
  } else if (call.addend_values.scale == nullptr) {
    launch_forward<Addend::Plain>(call, grid, stream);
  } else {
    launch_forward<Addend::Normed>(call, grid, stream);
  }
  check_launch("batch_norm_forward");
}

}  // namespace lockstep::kernels
