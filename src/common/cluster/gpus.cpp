// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/gpus.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include "common/base/text.h"
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
  // CUDA stops at the first entry that is not a device; -1 is the usual way to hide all GPUs.
  const auto names = split(*visible, ',');
  const auto end = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return name.empty() || name.starts_with('-');
  });
  return std::min(plugged, static_cast<int>(end - names.begin()));
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
