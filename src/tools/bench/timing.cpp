// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/timing.h"

#include <torch/cuda.h>
#include <torch/version.h>

#include "common/os/memory.h"

// Older versions of libtorch have no device-independent allocator interface, and lockstep is built
// without CUDA headers.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9)
#define LOCKSTEP_HAS_DEVICE_ALLOCATOR 1
#include <c10/core/CachingDeviceAllocator.h>
#else
#define LOCKSTEP_HAS_DEVICE_ALLOCATOR 0
#endif

namespace lockstep::bench {

void wait_for(torch::Device device) {
  if (device.is_cuda()) {
    torch::cuda::synchronize(device.index());
  }
}

// Kernels are asynchronous: without the first wait, earlier work would count, and without the
// second, most of this work would not.
double seconds_of(torch::Device device, const std::function<void()>& work) {
  wait_for(device);
  const auto begin = std::chrono::steady_clock::now();
  work();
  wait_for(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::optional<uint64_t> peak_bytes(torch::Device device) {
  if (device.is_cpu()) {
    return os::peak_resident_bytes();
  }
#if LOCKSTEP_HAS_DEVICE_ALLOCATOR
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return static_cast<uint64_t>(stats.allocated_bytes[0].peak);  // of all pools
#else
  return std::nullopt;
#endif
}

void forget_peak(torch::Device device) {
#if LOCKSTEP_HAS_DEVICE_ALLOCATOR
  if (!device.is_cpu()) {
    c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
  }
#else
  static_cast<void>(device);
#endif
}

void release_memory(torch::Device device) {
#if LOCKSTEP_HAS_DEVICE_ALLOCATOR
  if (!device.is_cpu()) {
    c10::getDeviceAllocator(device.type())->emptyCache();
  }
#else
  static_cast<void>(device);
#endif
}

}  // namespace lockstep::bench
