// SPDX-License-Identifier: Apache-2.0
//
// Permission to use a slice is permission to read a file of the driver:
//
//   /proc/driver/nvidia/capabilities/gpu0/mig/gi3/access   "DeviceFileMinor: 30"
//   /dev/nvidia-caps/nvidia-cap30                          readable: the slice can be used
//
// gpu0 is the minor number of the GPU, gi3 the GPU instance of the slice. A batch system or a
// container leaves out the files of slices that belong to others.
#include "common/cluster/mig.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/text.h"
#include "common/cluster/nvml_session.h"
#include "common/os/command.h"
#include "common/os/directory.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

fs::path capabilities(const fs::path& root) {
  return root / "proc" / "driver" / "nvidia" / "capabilities";
}

// The file whose permission decides about a slice; absent if the driver does not report one.
std::optional<fs::path> find_capability(const fs::path& root, unsigned minor, unsigned instance) {
  constexpr std::string_view kName = "DeviceFileMinor:";
  std::ifstream file(capabilities(root) / fmt::format("gpu{}", minor) / "mig" /
                     fmt::format("gi{}", instance) / "access");
  for (std::string line; std::getline(file, line);) {
    const size_t digits = line.find_first_of("0123456789");
    if (line.starts_with(kName) && digits != std::string::npos) {
      return root / "dev" / "nvidia-caps" / ("nvidia-cap" + line.substr(digits));
    }
  }
  return std::nullopt;
}

class SliceReader {
 public:
  SliceReader(const NvmlSession& nvml, fs::path root) : nvml_(nvml), root_(std::move(root)) {}

  std::vector<MigGpu> read() const {
    std::vector<MigGpu> gpus;
    unsigned count = 0;
    nvml_.call("nvmlDeviceGetCount_v2", &count);
    for (unsigned index = 0; index < count; ++index) {
      gpus.push_back(read_gpu(index));
    }
    return gpus;
  }

 private:
  std::string uuid_of(nvml::Device device) const {
    std::array<char, 96> text{};
    const auto size = static_cast<unsigned>(text.size());
    return nvml_.call("nvmlDeviceGetUUID", device, text.data(), size) == nvml::kSuccess
               ? std::string(text.data())
               : std::string();
  }

  MigGpu read_gpu(unsigned index) const {
    MigGpu gpu;
    nvml::Device device = nullptr;
    if (nvml_.call("nvmlDeviceGetHandleByIndex_v2", index, &device) != nvml::kSuccess) {
      return gpu;
    }
    gpu.uuid = uuid_of(device);
    unsigned mode = 0;
    unsigned mode_after_reset = 0;
    gpu.is_on =
        nvml_.call("nvmlDeviceGetMigMode", device, &mode, &mode_after_reset) == nvml::kSuccess &&
        mode == nvml::kMigOn;
    if (gpu.is_on) {
      add_slices(gpu, device, index);
    }
    return gpu;
  }

  // Numbers of slices have gaps: a slice that was destroyed leaves its number free.
  void add_slices(MigGpu& gpu, nvml::Device device, unsigned index) const {
    unsigned minor = index;
    nvml_.call("nvmlDeviceGetMinorNumber", device, &minor);
    unsigned most = 0;
    nvml_.call("nvmlDeviceGetMaxMigDeviceCount", device, &most);
    std::string denied;
    for (unsigned number = 0; number < most; ++number) {
      nvml::Device slice = nullptr;
      const nvml::Result result =
          nvml_.call("nvmlDeviceGetMigDeviceHandleByIndex", device, number, &slice);
      if (result == nvml::kNoPermission) {
        denied = "NVML";
      }
      if (result != nvml::kSuccess) {
        continue;
      }
      unsigned instance = 0;
      nvml_.call("nvmlDeviceGetGpuInstanceId", slice, &instance);
      const auto file = find_capability(root_, minor, instance);
      const std::string uuid = uuid_of(slice);
      if (file && os::exists(file->parent_path()) && !os::is_readable(*file)) {
        denied = file->string();
      } else if (!uuid.empty()) {
        gpu.slices.push_back(uuid);
      }
    }
    if (gpu.slices.empty()) {
      gpu.fault = describe(index, minor, denied);
    }
  }

  std::string describe(unsigned index, unsigned minor, std::string denied) const {
    const fs::path folder = capabilities(root_) / fmt::format("gpu{}", minor) / "mig";
    const std::vector<std::string> names = os::find_names(folder);
    const bool has_slices = std::any_of(
        names.begin(), names.end(), [](const std::string& name) { return name.starts_with("gi"); });
    if (denied.empty() && has_slices) {
      denied = "NVML lists none of them";
    }
    return denied.empty()
               ? fmt::format("GPU {} is in MIG mode but has no slices", index)
               : fmt::format("no permission to use the MIG slices of GPU {} ({})", index, denied);
  }

  const NvmlSession& nvml_;
  fs::path root_;
};

}  // namespace

bool has_mig(const fs::path& root) {
  const std::vector<std::string> names = os::find_names(capabilities(root));
  return std::any_of(names.begin(), names.end(), [&root](const std::string& name) {
    return name.starts_with("gpu") && os::exists(capabilities(root) / name / "mig");
  });
}

std::vector<MigGpu> list_mig_gpus(const std::string& library, const fs::path& root) {
  const auto nvml = NvmlSession::open(library);
  return nvml ? SliceReader(*nvml, root).read() : std::vector<MigGpu>();
}

}  // namespace lockstep::cluster
