// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <torch/types.h>

namespace lockstep::train {

// Returns the free memory of a GPU according to CUDA. Returns nothing for a CPU, or if libtorch has
// no CUDA runtime.
std::optional<int64_t> free_device_bytes(torch::Device device);

// Returns the memory that this process holds on a GPU for tensors, including the cache of the
// allocator and CUDA graphs. Returns nothing for a CPU, or if this build has no CUDA.
std::optional<int64_t> held_device_bytes(torch::Device device);

// Returns a name that is the same in all processes of a node that use the same GPU: its PCI bus id.
// Device indices are not suitable because CUDA_VISIBLE_DEVICES can differ between processes.
std::string device_name(torch::Device device);

}  // namespace lockstep::train
