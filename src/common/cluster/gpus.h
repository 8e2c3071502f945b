// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.h"

namespace lockstep::cluster {

// Number of GPUs on this node without regard to MIG: the NVIDIA device files in `devices`, limited
// by CUDA_VISIBLE_DEVICES if it is set. Does not need a driver library.
int visible_gpus(const os::Environment& environment, const std::filesystem::path& devices = "/dev");

// A device for a worker: a GPU, or a slice of a GPU in MIG mode.
struct GpuDevice {
  std::string name;  // for CUDA_VISIBLE_DEVICES: "0", "GPU-3f2a...", "MIG-8c1d..."
  int gpu = -1;      // number of the GPU, as in nvidia-smi; -1: unknown

  bool is_slice() const { return name.starts_with("MIG-"); }

  bool operator==(const GpuDevice&) const = default;
};

struct GpuDevices {
  std::vector<GpuDevice> devices;
  // Why a GPU in MIG mode has no device for this process: no slices, or no permission. Empty if
  // `devices` is not empty.
  std::string fault;

  int count() const { return static_cast<int>(devices.size()); }
  bool has_slices() const;
};

// Where list_gpu_devices() looks.
struct GpuSources {
  std::filesystem::path root = "/";  // contains dev and proc
  std::string nvml = "libnvidia-ml.so.1";
};

// The devices for the workers of this node, in the order of nvidia-smi or of CUDA_VISIBLE_DEVICES.
// Each slice of a GPU in MIG mode is a device, and the GPU itself is none. NVML is loaded only if
// the driver has MIG.
GpuDevices list_gpu_devices(const os::Environment& environment, const GpuSources& sources = {});

// The NUMA node of each GPU, absent if the machine does not report it. The order is that of the PCI
// bus, which NVML uses, and CUDA among GPUs of one model. Includes only GPUs that this process can
// open: a batch system may have closed the others. `root` contains dev, proc and sys.
std::vector<std::optional<int>> gpu_numa_nodes(const std::filesystem::path& root = "/");

}  // namespace lockstep::cluster
