// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <torch/torch.h>

namespace lockstep::train {

// What a GPU has left for this process, as CUDA counts it. Nothing for a CPU, and where libtorch
// brings no CUDA runtime.
std::optional<int64_t> free_device_bytes(torch::Device device);

// What this process holds there for tensors, its cache and recorded steps included. Nothing for a
// CPU, and where this build has no CUDA.
std::optional<int64_t> held_device_bytes(torch::Device device);

// The same for all processes of a node that use the same GPU.
std::string device_name(torch::Device device);

}  // namespace lockstep::train
