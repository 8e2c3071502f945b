// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/device_memory.h"

#include <array>

#include "common/os/memory.h"

namespace lockstep::train {
namespace {

// Finds a function in the CUDA runtime that libtorch has loaded; this file is built without one.
// Looking the symbols up avoids CUDA headers and a link dependency in builds for the CPU. Both
// functions return 0 (cudaSuccess) on success.
template <typename Function>
Function in_runtime(const char* name) {
  return reinterpret_cast<Function>(os::find_symbol(name));
}

}  // namespace

std::optional<int64_t> free_device_bytes(torch::Device device) {
  const auto get = in_runtime<int (*)(size_t*, size_t*)>("cudaMemGetInfo");
  if (!device.is_cuda() || get == nullptr) {
    return std::nullopt;
  }
  const c10::DeviceGuard guard(device);
  size_t free = 0;
  size_t all = 0;
  return get(&free, &all) == 0 ? std::optional(static_cast<int64_t>(free)) : std::nullopt;
}

std::string device_name(torch::Device device) {
  const auto get = in_runtime<int (*)(char*, int, int)>("cudaDeviceGetPCIBusId");
  std::array<char, 32> bus{};
  if (device.is_cuda() && get != nullptr &&
      get(bus.data(), static_cast<int>(bus.size()), device.index()) == 0) {
    return bus.data();
  }
  return device.str();
}

}  // namespace lockstep::train
