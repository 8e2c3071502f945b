// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "os/environment.h"

namespace lockstep::cluster {

// GPUs that a worker started here could use: the NVIDIA device files under `devices`, cut to
// CUDA_VISIBLE_DEVICES where it is set. Needs no driver library.
int visible_gpus(const os::Environment& environment, const std::filesystem::path& devices = "/dev");

}  // namespace lockstep::cluster
