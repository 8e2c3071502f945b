// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <torch/types.h>

namespace lockstep::bench {

// Waits until the device has finished all work; returns immediately for a CPU.
void wait_for(torch::Device device);

// The duration of `work`, with an idle device before and after it.
double seconds_of(torch::Device device, const std::function<void()>& work);

// Peak memory of tensors on a GPU since forget_peak(); on a CPU the peak resident memory since the
// start of the process. Nothing if this version of libtorch does not provide it.
std::optional<uint64_t> peak_bytes(torch::Device device);
void forget_peak(torch::Device device);

// Returns cached memory of libtorch to the GPU, for another process.
void release_memory(torch::Device device);

}  // namespace lockstep::bench
