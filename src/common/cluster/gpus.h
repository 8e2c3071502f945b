// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "common/os/environment.h"

namespace lockstep::cluster {

// Number of GPUs for a worker on this node: the NVIDIA device files in `devices`, limited by
// CUDA_VISIBLE_DEVICES if it is set. Does not need a driver library.
int visible_gpus(const os::Environment& environment, const std::filesystem::path& devices = "/dev");

// The NUMA node of each GPU, absent if the machine does not report it. The order is that of the PCI
// bus, which NVML uses, and CUDA among GPUs of one model. Includes only GPUs that this process can
// open: a batch system may have closed the others. `root` contains dev, proc and sys.
std::vector<std::optional<int>> gpu_numa_nodes(const std::filesystem::path& root = "/");

}  // namespace lockstep::cluster
