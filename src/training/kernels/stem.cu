// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/device.cuh"
#include "training/kernels/launch.h"
#include "training/kernels/stem.h"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 256;

__device__ float pixel_of(const StemInput& call, int64_t image, int y, int x, int colour) {
  const int64_t from = image * call.stride_image + colour * call.stride_colour +
                       y * call.stride_row + x * call.stride_column;
  const float value =
      call.bytes != nullptr ? static_cast<float>(call.bytes[from]) : call.floats[from];
  return fmaf(value, call.scale[colour], call.shift[colour]);
}

// A thread writes one cell: 2 x 2 pixels x 3 colours = 12 of its 16 channels. The last 4 stay zero,
// because tensor cores need multiples of 8 channels. Channel i is row i / 6, column i / 3 % 2,
// colour i % 3. The image has a border of two cells before it and one after it, which stay zero,
// too.
__global__ void __launch_bounds__(kThreads) cells_kernel(StemInput call, int64_t cells) {
  const int across = call.width / 2 + 3;
  const int down = call.height / 2 + 3;
  for (int64_t cell = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; cell < cells;
       cell += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int x = 2 * (static_cast<int>(cell % across) - 2);
    const int y = 2 * (static_cast<int>(cell / across % down) - 2);
    const int64_t image = cell / across / down;
    float values[kCellChannels] = {};
    if (x >= 0 && x < call.width && y >= 0 && y < call.height) {
#pragma unroll
      for (int i = 0; i < 12; ++i) {
        values[i] = pixel_of(call, image, y + i / 6, x + i / 3 % 2, i % 3);
      }
    }
#pragma unroll
    for (int half = 0; half < kCellChannels / kPack; ++half) {
      Floats part;
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        part.at[i] = values[half * kPack + i];
      }
      store_pack(call.output, cell * (kCellChannels / kPack) + half, narrow(part));
    }
  }
}

// A thread makes the 32 channels of one pixel. Channel i is row i / 9, column i / 3 % 3, colour i
// % 3 of the neighbourhood: constants after unrolling, unlike with one thread per eight channels.
__global__ void __launch_bounds__(kThreads) patches_kernel(StemInput call, int64_t count) {
  constexpr int kPacks = kPatchChannels / kPack;
  for (int64_t pixel = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; pixel < count;
       pixel += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int px = static_cast<int>(pixel % call.width);
    const int py = static_cast<int>(pixel / call.width % call.height);
    const int64_t image = pixel / call.width / call.height;
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      Floats part = {};
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const int channel = pack * kPack + i;
        const int y = py - 1 + channel / 9;
        const int x = px - 1 + channel / 3 % 3;
        if (channel < 27 && y >= 0 && y < call.height && x >= 0 && x < call.width) {
          part.at[i] = pixel_of(call, image, y, x, channel % 3);
        }
      }
      store_pack(call.output, pixel * kPacks + pack, narrow(part));
    }
  }
}

// A thread processes eight channels of one output pixel. The maximum starts at 0, which implements
// ReLU: a window without a positive value gives 0 and has no choice, so backward passes no gradient
// through it.
__global__ void __launch_bounds__(kThreads) pool_kernel(PoolForward call, int64_t places) {
  const int64_t packs = call.channels / kPack;
  const int height = call.height / 2;
  const int width = call.width / 2;
  for (int64_t place = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; place < places;
       place += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int64_t pack = place % packs;
    const int64_t pixel = place / packs;
    const int px = static_cast<int>(pixel % width);
    const int py = static_cast<int>(pixel / width % height);
    const int64_t image = pixel / width / height;
    const Floats scale = load_floats(call.values.scale, pack);
    const Floats shift = load_floats(call.values.shift, pack);
    Floats window_max = {};
    unsigned choice[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      choice[i] = kNoChoice;
    }
#pragma unroll
    for (int position = 0; position < 9; ++position) {
      const int y = 2 * py - 1 + position / 3;
      const int x = 2 * px - 1 + position % 3;
      if (y < 0 || x < 0) {  // the sizes are even: only the first row and column are outside
        continue;
      }
      const int64_t row = (image * call.height + y) * call.width + x;
      const Floats values = widen(load_pack(call.input, row * packs + pack));
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        const float value = fmaf(values.at[i], scale.at[i], shift.at[i]);
        if (!(value <= window_max.at[i])) {  // also true for NaN, as in libtorch
          window_max.at[i] = value;
          choice[i] = static_cast<unsigned>(position);
        }
      }
    }
    store_pack(call.output, place, narrow(window_max));
    reinterpret_cast<uint2*>(call.choice)[place] =
        make_uint2(choice[0] | choice[1] << 8 | choice[2] << 16 | choice[3] << 24,
                   choice[4] | choice[5] << 8 | choice[6] << 16 | choice[7] << 24);
  }
}

unsigned blocks_for(int64_t items) {
  const int64_t wanted = divide_up(items, kThreads);
  const int64_t limit = 32LL * multiprocessors();
  return static_cast<unsigned>(wanted < limit ? wanted : limit);
}

}  // namespace

void image_cells(const StemInput& call, Stream stream) {
  require(call.images > 0 && call.height % 2 == 0 && call.width % 2 == 0, "images of even size");
  require((call.bytes == nullptr) != (call.floats == nullptr), "either bytes or floats");
  const int64_t cells = call.images * (call.height / 2 + 3) * (call.width / 2 + 3);
  cells_kernel<<<blocks_for(cells), kThreads, 0, stream>>>(call, cells);
  check_launch("image_cells");
}

void image_patches(const StemInput& call, Stream stream) {
  require(call.images > 0 && call.height > 0 && call.width > 0, "images with pixels");
  require((call.bytes == nullptr) != (call.floats == nullptr), "either bytes or floats");
  const int64_t count = call.images * call.height * call.width;
  patches_kernel<<<blocks_for(count), kThreads, 0, stream>>>(call, count);
  check_launch("image_patches");
}

void pool_forward(const PoolForward& call, Stream stream) {
  require(
      call.images > 0 && call.height % 2 == 0 && call.width % 2 == 0 && call.channels % kPack == 0,
      "pooling of even sizes");
  const int64_t places =
      call.images * (call.height / 2) * (call.width / 2) * (call.channels / kPack);
  pool_kernel<<<blocks_for(places), kThreads, 0, stream>>>(call, places);
  check_launch("pool_forward");
}

}  // namespace lockstep::kernels
