// SPDX-License-Identifier: Apache-2.0
#include <c10/cuda/CUDACachingAllocator.h>

#include "training/train/loop/device_memory.h"

namespace lockstep::train {

std::optional<int64_t> held_device_bytes(torch::Device device) {
  if (!device.is_cuda()) {
    return std::nullopt;
  }
  // Index 0 is the sum of the small and the large pool.
  return c10::cuda::CUDACachingAllocator::getDeviceStats(device.index()).reserved_bytes[0].current;
}

}  // namespace lockstep::train
