// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <torch/torch.h>

namespace lockstep::bench {

// Until the device has done all that it was asked for; a CPU has.
void wait_for(torch::Device device);

// Of `work` on a device that is idle before and after.
double seconds_of(torch::Device device, const std::function<void()>& work);

// The most memory of tensors on a GPU since forget_peak(); of a CPU the most that was resident
// since the process began. Nothing where this libtorch does not say.
std::optional<uint64_t> peak_bytes(torch::Device device);
void forget_peak(torch::Device device);

// Gives memory that libtorch keeps back to the GPU, for another process.
void release_memory(torch::Device device);

}  // namespace lockstep::bench
