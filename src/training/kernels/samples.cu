// SPDX-License-Identifier: Apache-2.0
//
// Two kernels: planes to RGB for the part of the image that the sample shows (colour_kernel), then
// one block per output row, which blends source rows in shared memory and then columns
// (resample_kernel). The order of rounding is that of image::Resampler.
#include "training/kernels/launch.h"
#include "training/kernels/samples.h"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kKeptBits = 4;     // fractional bits of a blended row
constexpr int kWeightBits = 12;  // the sum of all weights is 2^12

__device__ __forceinline__ int clamp_to(int value, int most) {
  return value < 0 ? 0 : value > most ? most : value;
}

// A pixel of the reduced plane. Like libjpeg, the clamp repeats the outermost pixels.
__device__ __forceinline__ int plane_at(const JpegPlane& plane, int x, int y) {
  if (plane.shift == 0) {
    return plane.pixels[static_cast<int64_t>(clamp_to(y, plane.height - 1)) * plane.pitch +
                        clamp_to(x, plane.width - 1)];
  }
  const int side = 1 << plane.shift;
  // Outside of the reduced plane, use its outermost pixel, which is also an average.
  const int left = clamp_to(x, (plane.width - 1) >> plane.shift) * side;
  const int top = clamp_to(y, (plane.height - 1) >> plane.shift) * side;
  int sum = 0;
  for (int row = 0; row < side; ++row) {
    const uint8_t* from =
        plane.pixels + static_cast<int64_t>(clamp_to(top + row, plane.height - 1)) * plane.pitch;
    for (int column = 0; column < side; ++column) {
      sum += from[clamp_to(left + column, plane.width - 1)];
    }
  }
  return (sum + side * side / 2) >> (2 * plane.shift);
}

// h2v1_fancy_upsample() and h2v2_fancy_upsample() of libjpeg: three quarters of the nearer sample
// and one quarter of the further one, in each direction that is halved. The roundings alternate.
__device__ __forceinline__ int chroma_at(const SampleJob& job, int plane, int x, int y) {
  const JpegPlane& from = job.planes[plane];
  const int column = job.halves_x ? x >> 1 : x;
  const int row = job.halves_y ? y >> 1 : y;
  if (!job.halves_x) {
    return plane_at(from, column, row);
  }
  const bool is_right = (x & 1) != 0;
  const int beside = is_right ? column + 1 : column - 1;
  if (!job.halves_y) {
    return (3 * plane_at(from, column, row) + plane_at(from, beside, row) + (is_right ? 2 : 1)) >>
           2;
  }
  const int further = (y & 1) != 0 ? row + 1 : row - 1;
  const int near_sum = 3 * plane_at(from, column, row) + plane_at(from, column, further);
  const int far_sum = 3 * plane_at(from, beside, row) + plane_at(from, beside, further);
  return (3 * near_sum + far_sum + (is_right ? 7 : 8)) >> 4;
}

// ycc_rgb_convert() of libjpeg: 16 fractional bits, FIX(1.40200) and so on.
__device__ __forceinline__ uint32_t to_rgbx(int y, int cb, int cr) {
  constexpr int kHalf = 1 << 15;
  const int blue = cb - 128;
  const int red = cr - 128;
  const int r = clamp_to(y + ((91881 * red + kHalf) >> 16), 255);
  const int g = clamp_to(y + ((-22554 * blue - 46802 * red + kHalf) >> 16), 255);
  const int b = clamp_to(y + ((116130 * blue + kHalf) >> 16), 255);
  return static_cast<uint32_t>(r) | static_cast<uint32_t>(g) << 8 | static_cast<uint32_t>(b) << 16;
}

__global__ void __launch_bounds__(kThreads) colour_kernel(const SampleJob* jobs) {
  const SampleJob& job = jobs[blockIdx.y];
  const int pixels = job.width * job.height;
  const int stride = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < pixels; i += stride) {
    const int x = job.left + i % job.width;
    const int y = job.top + i / job.width;
    const int luma = plane_at(job.planes[0], x, y);
    job.part[i] = job.has_colour ? to_rgbx(luma, chroma_at(job, 1, x, y), chroma_at(job, 2, x, y))
                                 : static_cast<uint32_t>(luma) * 0x010101U;
  }
}

// A pixel of a blended row, 8 + kKeptBits bits per colour.
struct alignas(8) Blended {
  uint16_t colours[4];
};

__global__ void __launch_bounds__(kThreads) resample_kernel(const SampleJob* jobs, int size) {
  extern __shared__ Blended row[];
  const SampleJob& job = jobs[blockIdx.y];
  const int y = static_cast<int>(blockIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int count = job.rows.count[y];
  const uint32_t* part = job.part + static_cast<int64_t>(job.rows.first[y] - job.top) * job.width;
  const int16_t* weights = job.rows.weights + static_cast<int64_t>(y) * job.rows.taps;
  for (int x = static_cast<int>(threadIdx.x); x < job.width; x += threads) {
    int sums[3] = {};
    for (int k = 0; k < count; ++k) {
      const uint32_t pixel = part[static_cast<int64_t>(k) * job.width + x];
      const int weight = weights[k];
      sums[0] += weight * static_cast<int>(pixel & 255);
      sums[1] += weight * static_cast<int>(pixel >> 8 & 255);
      sums[2] += weight * static_cast<int>(pixel >> 16 & 255);
    }
    constexpr int kDropped = kWeightBits - kKeptBits;
    for (int c = 0; c < 3; ++c) {
      row[x].colours[c] = static_cast<uint16_t>((sums[c] + (1 << (kDropped - 1))) >> kDropped);
    }
  }
  __syncthreads();
  for (int x = static_cast<int>(threadIdx.x); x < size; x += threads) {
    const Blended* from = row + (job.columns.first[x] - job.left);
    const int taps = job.columns.count[x];
    const int16_t* across = job.columns.weights + static_cast<int64_t>(x) * job.columns.taps;
    int sums[3] = {};
    for (int k = 0; k < taps; ++k) {
      for (int c = 0; c < 3; ++c) {
        sums[c] += across[k] * static_cast<int>(from[k].colours[c]);
      }
    }
    constexpr int kShift = kKeptBits + kWeightBits;
    uint8_t* output = job.output + y * job.row_step + x * job.column_step;
    for (int c = 0; c < 3; ++c) {
      output[c] = static_cast<uint8_t>(clamp_to((sums[c] + (1 << (kShift - 1))) >> kShift, 255));
    }
  }
}

}  // namespace

void make_samples(const MakeSamples& call, Stream stream) {
  require(call.count > 0 && call.count <= 65535, "1 to 65,535 samples");
  require(call.most_width > 0 && call.most_width <= kMostSampleColumns, "parts of 4,096 columns");
  constexpr int64_t kPixelsPerThread = 8;
  const auto blocks =
      static_cast<unsigned>(divide_up(call.most_pixels, kThreads * kPixelsPerThread));
  const auto images = static_cast<unsigned>(call.count);
  colour_kernel<<<dim3(blocks, images), kThreads, 0, stream>>>(call.jobs);
  check_launch("colour_kernel");
  const size_t row_bytes = static_cast<size_t>(call.most_width) * sizeof(Blended);
  resample_kernel<<<dim3(static_cast<unsigned>(call.size), images), kThreads, row_bytes, stream>>>(
      call.jobs, call.size);
  check_launch("resample_kernel");
}

}  // namespace lockstep::kernels
