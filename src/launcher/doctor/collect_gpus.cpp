// SPDX-License-Identifier: Apache-2.0
// Reads GPU facts with NVML, the library of the driver. It is loaded at run time and never linked,
// so the executable also runs on machines without a driver.
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "common/base/text.h"
#include "common/cluster/gpus.h"
#include "common/os/command.h"
#include "common/os/library.h"
#include "launcher/doctor/collect.h"

namespace lockstep::doctor {
namespace {

// The part of the NVML interface that is needed here. Version suffixes in function names keep it
// stable.
using NvmlReturn = int;
using NvmlDevice = void*;
constexpr NvmlReturn kSuccess = 0;
constexpr unsigned kTextBytes = 96;

struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

// Calls a function of NVML. Returns false if this driver lacks it or the call fails.
class Nvml {
 public:
  explicit Nvml(const os::Library& library) : library_(library) {}

  template <typename... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    using Function = NvmlReturn (*)(Arguments...);
    const auto function = library_.function<Function>(name);
    return function != nullptr && function(arguments...) == kSuccess;
  }

 private:
  const os::Library& library_;
};

GpuFact read_gpu(const Nvml& nvml, unsigned index) {
  GpuFact fact;
  NvmlDevice device = nullptr;
  if (!nvml.call("nvmlDeviceGetHandleByIndex_v2", index, &device)) {
    fact.name = "not accessible";
    return fact;
  }
  std::array<char, kTextBytes> name{};
  if (nvml.call("nvmlDeviceGetName", device, name.data(), kTextBytes)) {
    fact.name = name.data();
  }
  NvmlMemory memory;
  if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory)) {
    fact.memory_bytes = static_cast<int64_t>(memory.total);
  }
  unsigned ecc = 0;
  unsigned ecc_next = 0;
  if (nvml.call("nvmlDeviceGetEccMode", device, &ecc, &ecc_next)) {
    fact.ecc = ecc != 0;
  }
  unsigned persistence = 0;
  if (nvml.call("nvmlDeviceGetPersistenceMode", device, &persistence)) {
    fact.persistence = persistence != 0;
  }
  constexpr int kUncorrected = 1;
  constexpr int kSinceBoot = 0;
  unsigned long long errors = 0;
  if (nvml.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceBoot, &errors)) {
    fact.uncorrected_errors = static_cast<int64_t>(errors);
  }
  return fact;
}

void read_nvml(GpuFacts& facts, const os::Library& library) {
  const Nvml nvml(library);
  if (!nvml.call("nvmlInit_v2")) {
    facts.fault =
        "NVML is installed but does not start: driver and library do not match, or the driver "
        "is not loaded";
    return;
  }
  std::array<char, kTextBytes> driver{};
  if (nvml.call("nvmlSystemGetDriverVersion", driver.data(), kTextBytes)) {
    facts.driver = driver.data();
  }
  nvml.call("nvmlSystemGetCudaDriverVersion_v2", &facts.cuda_of_driver);
  unsigned count = 0;
  nvml.call("nvmlDeviceGetCount_v2", &count);
  for (unsigned index = 0; index < count; ++index) {
    facts.gpus.push_back(read_gpu(nvml, index));
  }
  nvml.call("nvmlShutdown");
}

// Number of allocated GPUs, from a count ("2") or a list ("0,1"). A list with ranges ("0-3") or
// with UUIDs contains a hyphen and is not counted.
int count_granted(const os::Environment& environment) {
  if (const auto count =
          find_integer(os::find_variable(environment, "SLURM_GPUS_ON_NODE").value_or(""))) {
    return static_cast<int>(*count);
  }
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"}) {
    const auto list = os::find_variable(environment, name);
    if (list && !list->empty() && list->find('-') == std::string::npos) {
      return static_cast<int>(split(*list, ',').size());
    }
  }
  return -1;
}

}  // namespace

GpuFacts collect_gpus(const os::Environment& environment, const std::string& library) {
  GpuFacts facts;
  if (const auto nvml = os::Library::find(library)) {
    facts.has_nvml = true;
    read_nvml(facts, *nvml);
  }
  os::Environment without = environment;
  without.erase("CUDA_VISIBLE_DEVICES");
  facts.device_files = cluster::visible_gpus(without);
  const auto visible = os::find_variable(environment, "CUDA_VISIBLE_DEVICES");
  facts.is_visible_set = visible.has_value();
  facts.visible = visible.value_or("");
  facts.granted = count_granted(environment);
  const cluster::GpuDevices devices = cluster::list_gpu_devices(without, {.nvml = library});
  facts.slices = static_cast<int>(
      std::count_if(devices.devices.begin(), devices.devices.end(), [](const auto& device) {
        return device.is_slice();
      }));
  facts.no_slices = devices.fault;
  facts.mps = os::find_program("nvidia-cuda-mps-control", environment).value_or("").string();
  return facts;
}

}  // namespace lockstep::doctor
