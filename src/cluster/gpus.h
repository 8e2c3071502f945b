// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "os/environment.h"

namespace lockstep::cluster {

// GPUs that a worker started here could use: the NVIDIA device files under `devices`, cut to
// CUDA_VISIBLE_DEVICES where it is set. Needs no driver library.
int visible_gpus(const os::Environment& environment, const std::filesystem::path& devices = "/dev");

// The NUMA node that each GPU is at, absent where the machine does not tell; in the order of the
// PCI bus, which is NVML's, and CUDA's among GPUs of one kind. Only GPUs that this process may use:
// a batch system may have closed the others. `root` is where dev, proc and sys lie.
std::vector<std::optional<int>> gpu_numa_nodes(const std::filesystem::path& root = "/");

}  // namespace lockstep::cluster
