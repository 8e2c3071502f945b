// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::cluster {

// A GPU and its MIG slices: parts with their own memory and multiprocessors, each of which CUDA
// treats as a device.
struct MigGpu {
  std::string uuid;
  bool is_on = false;               // MIG mode; the GPU itself cannot be used then
  std::vector<std::string> slices;  // UUIDs of the slices that this process can use
  std::string fault;                // why there are none; empty if there are

  bool operator==(const MigGpu&) const = default;
};

// Whether the driver of this machine has MIG, on any GPU. Reads procfs only. `root` contains proc.
bool has_mig(const std::filesystem::path& root);

// All GPUs in the order of nvidia-smi; none if NVML is not available. `library` is NVML, `root`
// contains dev and proc.
std::vector<MigGpu> list_mig_gpus(const std::string& library, const std::filesystem::path& root);

}  // namespace lockstep::cluster
