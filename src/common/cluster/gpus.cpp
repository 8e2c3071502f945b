// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/gpus.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include "common/base/text.h"
#include "common/cluster/mig.h"
#include "common/os/files.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

// /dev also has nvidiactl, nvidia-uvm and nvidia-modeset; only nvidiaN is a GPU.
bool is_gpu(std::string_view name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.starts_with(kPrefix) && find_integer(name.substr(kPrefix.size())).has_value();
}

// "Device Minor: \t 3" in the driver's description of a GPU is the 3 of /dev/nvidia3.
std::optional<int64_t> find_minor(const fs::path& information) {
  constexpr std::string_view kName = "Device Minor:";
  std::ifstream file(information);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kName)) {
      const size_t digits = line.find_first_of("0123456789");
      return digits == std::string::npos ? std::nullopt : find_integer(line.substr(digits));
    }
  }
  return std::nullopt;
}

std::optional<int> find_numa_node(const fs::path& device) {
  std::ifstream file(device / "numa_node");
  int node = -1;
  file >> node;
  return node >= 0 && file ? std::optional(node) : std::nullopt;  // -1: only one NUMA node
}

int to_int(size_t count) {
  return static_cast<int>(count);
}

// CUDA stops at the first entry that is not a device; -1 is the usual way to hide all GPUs.
std::vector<std::string> valid_names(const std::string& visible) {
  std::vector<std::string> names = split(visible, ',');
  const auto end = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return name.empty() || name.starts_with('-');
  });
  names.erase(end, names.end());
  return names;
}

// The entries of CUDA_VISIBLE_DEVICES; if it is not set, the numbers of all GPUs.
std::vector<std::string> device_names(const os::Environment& environment, int gpus) {
  if (const auto visible = os::find_variable(environment, "CUDA_VISIBLE_DEVICES")) {
    return valid_names(*visible);
  }
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(std::max(gpus, 0)));
  for (int gpu = 0; gpu < gpus; ++gpu) {
    names.push_back(std::to_string(gpu));
  }
  return names;
}

// The number of the GPU with this number or UUID, or with the slice of this UUID; -1: unknown. A
// UUID can be abbreviated.
int find_gpu(const std::string& name, const std::vector<MigGpu>& gpus) {
  if (const auto number = find_integer(name)) {
    return static_cast<int>(*number);
  }
  const auto found = std::find_if(gpus.begin(), gpus.end(), [&name](const MigGpu& gpu) {
    return gpu.uuid.starts_with(name) ||
           std::any_of(gpu.slices.begin(), gpu.slices.end(), [&name](const std::string& slice) {
             return slice.starts_with(name);
           });
  });
  return found == gpus.end() ? -1 : to_int(static_cast<size_t>(found - gpus.begin()));
}

}  // namespace

int visible_gpus(const os::Environment& environment, const std::filesystem::path& devices) {
  int plugged = 0;
  std::error_code ignored;  // no such directory: no GPU
  for (const auto& entry : std::filesystem::directory_iterator(devices, ignored)) {
    plugged += is_gpu(entry.path().filename().string()) ? 1 : 0;
  }
  const auto visible = os::find_variable(environment, "CUDA_VISIBLE_DEVICES");
  if (!visible) {
    return plugged;
  }
  return std::min(plugged, to_int(valid_names(*visible).size()));
}

bool GpuDevices::has_slices() const {
  return std::any_of(
      devices.begin(), devices.end(), [](const GpuDevice& one) { return one.is_slice(); });
}

// A number or a UUID in CUDA_VISIBLE_DEVICES that names a GPU in MIG mode stands for its slices.
// The names of slices count even without NVML: a batch system sets them for the slices of a job.
GpuDevices list_gpu_devices(const os::Environment& environment, const GpuSources& sources) {
  const std::vector<MigGpu> mig =
      has_mig(sources.root) ? list_mig_gpus(sources.nvml, sources.root) : std::vector<MigGpu>();
  const int plugged = visible_gpus({}, sources.root / "dev");
  GpuDevices found;
  int plain = 0;
  for (const std::string& name : device_names(environment, std::max(plugged, to_int(mig.size())))) {
    const int gpu = find_gpu(name, mig);
    const bool is_slice = name.starts_with("MIG-");
    const bool is_known = gpu >= 0 && gpu < to_int(mig.size());
    if (!is_slice && is_known && mig[static_cast<size_t>(gpu)].is_on) {
      const MigGpu& whole = mig[static_cast<size_t>(gpu)];
      for (const std::string& slice : whole.slices) {
        found.devices.push_back({.name = slice, .gpu = gpu});
      }
      found.fault = found.fault.empty() ? whole.fault : found.fault;
    } else if (is_slice || ++plain <= plugged) {
      found.devices.push_back({.name = name, .gpu = gpu});
    }
  }
  if (!found.devices.empty()) {
    found.fault.clear();
  }
  return found;
}

// The driver names its folders by PCI address with fixed width ("0000:3b:00.0"), so the order of
// the map is the order of the bus.
std::vector<std::optional<int>> gpu_numa_nodes(const fs::path& root) {
  std::map<std::string, std::optional<int>> by_address;
  std::error_code ignored;  // no such directory: no GPU
  for (const auto& entry :
       fs::directory_iterator(root / "proc" / "driver" / "nvidia" / "gpus", ignored)) {
    const std::string address = entry.path().filename().string();
    const auto minor = find_minor(entry.path() / "information");
    if (minor && os::is_usable(root / "dev" / ("nvidia" + std::to_string(*minor)))) {
      by_address.emplace(address,
                         find_numa_node(root / "sys" / "bus" / "pci" / "devices" / address));
    }
  }
  std::vector<std::optional<int>> nodes;
  nodes.reserve(by_address.size());
  for (const auto& [address, node] : by_address) {
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace lockstep::cluster
