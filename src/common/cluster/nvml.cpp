// SPDX-License-Identifier: Apache-2.0
//
// NVML is loaded at run time (dlopen), because the launcher must also start on machines without a
// driver. cluster/nvml_calls.h declares the few structures that are used. Every function is
// optional: a missing symbol, an old driver and a GPU without the feature
// (NVML_ERROR_NOT_SUPPORTED) all lead to an absent value, never to an error.
#include "common/cluster/nvml.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <utility>

#include "common/cluster/nvml_calls.h"
#include "common/os/library.h"

namespace lockstep::cluster {
namespace {

using Count = unsigned long long;

// The functions of the library; null if the installed version lacks one.
struct Calls {
  explicit Calls(const os::Library& from)
      : init(from.function<decltype(init)>("nvmlInit_v2")),
        shutdown(from.function<decltype(shutdown)>("nvmlShutdown")),
        error_string(from.function<decltype(error_string)>("nvmlErrorString")),
        count(from.function<decltype(count)>("nvmlDeviceGetCount_v2")),
        handle(from.function<decltype(handle)>("nvmlDeviceGetHandleByIndex_v2")),
        uuid(from.function<decltype(uuid)>("nvmlDeviceGetUUID")),
        name(from.function<decltype(name)>("nvmlDeviceGetName")),
        pci(from.function<decltype(pci)>("nvmlDeviceGetPciInfo_v3")),
        utilization(from.function<decltype(utilization)>("nvmlDeviceGetUtilizationRates")),
        memory(from.function<decltype(memory)>("nvmlDeviceGetMemoryInfo")),
        memory_by_use(from.function<decltype(memory_by_use)>("nvmlDeviceGetMemoryInfo_v2")),
        power(from.function<decltype(power)>("nvmlDeviceGetPowerUsage")),
        energy(from.function<decltype(energy)>("nvmlDeviceGetTotalEnergyConsumption")),
        temperature(from.function<decltype(temperature)>("nvmlDeviceGetTemperature")),
        clock(from.function<decltype(clock)>("nvmlDeviceGetClockInfo")),
        pcie(from.function<decltype(pcie)>("nvmlDeviceGetPcieThroughput")),
        fields(from.function<decltype(fields)>("nvmlDeviceGetFieldValues")),
        ecc(from.function<decltype(ecc)>("nvmlDeviceGetTotalEccErrors")),
        mig_mode(from.function<decltype(mig_mode)>("nvmlDeviceGetMigMode")),
        most_slices(from.function<decltype(most_slices)>("nvmlDeviceGetMaxMigDeviceCount")),
        slice(from.function<decltype(slice)>("nvmlDeviceGetMigDeviceHandleByIndex")),
        instance(from.function<decltype(instance)>("nvmlDeviceGetGpuInstanceId")),
        attributes(from.function<decltype(attributes)>("nvmlDeviceGetAttributes_v2")),
        make_gpm(from.function<decltype(make_gpm)>("nvmlGpmSampleAlloc")),
        free_gpm(from.function<decltype(free_gpm)>("nvmlGpmSampleFree")),
        take_gpm(from.function<decltype(take_gpm)>("nvmlGpmMigSampleGet")),
        read_gpm(from.function<decltype(read_gpm)>("nvmlGpmMetricsGet")),
        make_set(from.function<decltype(make_set)>("nvmlEventSetCreate")),
        free_set(from.function<decltype(free_set)>("nvmlEventSetFree")),
        watch(from.function<decltype(watch)>("nvmlDeviceRegisterEvents")),
        wait(from.function<decltype(wait)>("nvmlEventSetWait_v2")) {}

  nvml::Result (*init)();
  nvml::Result (*shutdown)();
  const char* (*error_string)(nvml::Result);
  nvml::Result (*count)(unsigned*);
  nvml::Result (*handle)(unsigned, nvml::Device*);
  nvml::Result (*uuid)(nvml::Device, char*, unsigned);
  nvml::Result (*name)(nvml::Device, char*, unsigned);
  nvml::Result (*pci)(nvml::Device, nvml::PciInfo*);
  nvml::Result (*utilization)(nvml::Device, nvml::Utilization*);
  nvml::Result (*memory)(nvml::Device, nvml::Memory*);
  nvml::Result (*memory_by_use)(nvml::Device, nvml::MemoryByUse*);
  nvml::Result (*power)(nvml::Device, unsigned*);
  nvml::Result (*energy)(nvml::Device, Count*);
  nvml::Result (*temperature)(nvml::Device, int, unsigned*);
  nvml::Result (*clock)(nvml::Device, int, unsigned*);
  nvml::Result (*pcie)(nvml::Device, int, unsigned*);
  nvml::Result (*fields)(nvml::Device, int, nvml::FieldValue*);
  nvml::Result (*ecc)(nvml::Device, int, int, Count*);
  nvml::Result (*mig_mode)(nvml::Device, unsigned*, unsigned*);
  nvml::Result (*most_slices)(nvml::Device, unsigned*);
  nvml::Result (*slice)(nvml::Device, unsigned, nvml::Device*);
  nvml::Result (*instance)(nvml::Device, unsigned*);
  nvml::Result (*attributes)(nvml::Device, nvml::Attributes*);
  nvml::Result (*make_gpm)(nvml::GpmSample*);
  nvml::Result (*free_gpm)(nvml::GpmSample);
  nvml::Result (*take_gpm)(nvml::Device, unsigned, nvml::GpmSample);
  nvml::Result (*read_gpm)(nvml::GpmMetrics*);
  nvml::Result (*make_set)(nvml::EventSet*);
  nvml::Result (*free_set)(nvml::EventSet);
  nvml::Result (*watch)(nvml::Device, Count, nvml::EventSet);
  nvml::Result (*wait)(nvml::EventSet, nvml::EventData*, unsigned);
};

// The output parameter of a call; nothing if the call fails or the function is missing.
template <typename Value, typename... Parameters, typename... Arguments>
std::optional<Value> find(nvml::Result (*call)(Parameters...), Arguments... arguments) {
  Value value{};
  return call != nullptr && call(arguments..., &value) == nvml::kSuccess ? std::optional(value)
                                                                         : std::nullopt;
}

std::string find_text(nvml::Result (*call)(nvml::Device, char*, unsigned), nvml::Device device) {
  std::array<char, 96> text{};
  const bool is_available =
      call != nullptr &&
      call(device, text.data(), static_cast<unsigned>(text.size())) == nvml::kSuccess;
  return is_available ? std::string(text.data()) : std::string();
}

std::optional<double> scaled(const auto& value, double factor) {
  return value ? std::optional(static_cast<double>(*value) * factor) : std::nullopt;
}

}  // namespace

class Nvml::Driver {
 public:
  explicit Driver(os::Library library) : library_(std::move(library)), calls_(library_) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // The event set belongs to the library and must be freed before nvmlShutdown(). The library
  // itself is unloaded last, by the member library_.
  ~Driver() {
    for (const Gpu& gpu : gpus_) {
      for (const nvml::GpmSample sample : gpu.gpm) {
        if (sample != nullptr && calls_.free_gpm != nullptr) {
          calls_.free_gpm(sample);
        }
      }
    }
    if (events_ != nullptr && calls_.free_set != nullptr) {
      calls_.free_set(events_);
    }
    if (is_ready_ && calls_.shutdown != nullptr) {
      calls_.shutdown();
    }
  }

  // Why there are no samples; empty if there are.
  std::string open() {
    if (calls_.init == nullptr || calls_.count == nullptr || calls_.handle == nullptr) {
      return "NVIDIA's management library is too old";
    }
    if (const nvml::Result result = calls_.init(); result != nvml::kSuccess) {
      return "NVIDIA's management library cannot reach the driver: " + describe(result);
    }
    is_ready_ = true;
    unsigned count = 0;
    if (const nvml::Result result = calls_.count(&count); result != nvml::kSuccess) {
      return "the driver does not report the number of GPUs: " + describe(result);
    }
    for (unsigned index = 0; index < count; ++index) {
      add(static_cast<int>(index));  // a GPU that has fallen off the bus does not hide the others
    }
    if (gpus_.empty() && has_mig_) {
      return "GPUs are in MIG mode, without a slice that this process can use";
    }
    return gpus_.empty() ? "this process has no access to a GPU" : "";
  }

  std::vector<contract::GpuSample> sample(Clock::time_point now) {
    take_events();
    std::vector<contract::GpuSample> samples;
    samples.reserve(gpus_.size());
    for (Gpu& gpu : gpus_) {
      samples.push_back(sample(gpu, now));
    }
    before_ = now;
    return samples;
  }

 private:
  struct Counter {
    std::optional<Count> before;
  };
  struct Gpu {
    nvml::Device device = nullptr;
    nvml::Device whole = nullptr;  // the GPU of a slice; otherwise `device`
    unsigned instance = nvml::kNoInstance;
    contract::GpuSample known;  // constant values and the last XID
    // Two samples of a slice, older first. The driver reports the utilization between them.
    std::array<nvml::GpmSample, 2> gpm = {};
    bool has_gpm = false;  // the older sample is taken
    std::map<unsigned, Counter> counters;
  };

  std::string describe(nvml::Result result) const {
    const char* text = calls_.error_string != nullptr ? calls_.error_string(result) : nullptr;
    return text != nullptr ? text : fmt::format("error {}", result);
  }

  void add(int index) {
    Gpu gpu;
    if (calls_.handle(static_cast<unsigned>(index), &gpu.device) != nvml::kSuccess) {
      return;
    }
    gpu.whole = gpu.device;
    if (events_ == nullptr && calls_.make_set != nullptr) {
      calls_.make_set(&events_);
    }
    if (events_ != nullptr && calls_.watch != nullptr) {
      calls_.watch(gpu.device, nvml::kXidEvent, events_);
    }
    unsigned mode_after_reset = 0;
    unsigned mode = 0;
    if (calls_.mig_mode != nullptr &&
        calls_.mig_mode(gpu.device, &mode, &mode_after_reset) == nvml::kSuccess &&
        mode == nvml::kMigOn) {
      has_mig_ = true;
      add_slices(gpu.device, index);
    } else {
      gpu.known.index = index + more_slices_;
      describe_device(gpu);
      gpus_.push_back(std::move(gpu));
    }
  }

  void describe_device(Gpu& gpu) const {
    gpu.known.uuid = find_text(calls_.uuid, gpu.device);
    gpu.known.name = find_text(calls_.name, gpu.device);
    if (const auto pci = find<nvml::PciInfo>(calls_.pci, gpu.whole)) {
      gpu.known.bus_id = std::begin(pci->bus_id);
    }
  }

  // The slices of a GPU in MIG mode, instead of the GPU. The maximum number of slices is also the
  // number of compute slices of the GPU (7 for A100 to B200), which a large slice has several of.
  void add_slices(nvml::Device whole, int index) {
    const unsigned most = find<unsigned>(calls_.most_slices, whole).value_or(0);
    int added = 0;
    for (unsigned number = 0; number < most; ++number) {
      const auto device = find<nvml::Device>(calls_.slice, whole, number);
      if (!device) {
        continue;  // free, or not visible to this process
      }
      Gpu gpu;
      gpu.device = *device;
      gpu.whole = whole;
      gpu.instance = find<unsigned>(calls_.instance, *device).value_or(nvml::kNoInstance);
      gpu.known.index = index + more_slices_ + added++;
      gpu.known.slice_of = index;
      if (const auto size = find<nvml::Attributes>(calls_.attributes, *device)) {
        gpu.known.slice_share = std::min(1.0, size->compute_slices / static_cast<double>(most));
      }
      describe_device(gpu);
      for (nvml::GpmSample& sample : gpu.gpm) {
        sample = find<nvml::GpmSample>(calls_.make_gpm).value_or(nullptr);
      }
      gpus_.push_back(std::move(gpu));
    }
    more_slices_ += std::max(0, added - 1);
  }

  // Reads pending events; limited, so that a flood of events cannot block the sampler.
  void take_events() {
    constexpr int kMaxAtOnce = 64;
    nvml::EventData event{};
    for (int taken = 0; events_ != nullptr && calls_.wait != nullptr && taken < kMaxAtOnce &&
                        calls_.wait(events_, &event, 0) == nvml::kSuccess;
         ++taken) {
      for (Gpu& gpu : gpus_) {
        const bool is_meant = gpu.whole == event.device &&
                              (gpu.instance == event.gpu_instance || gpu.whole == gpu.device ||
                               event.gpu_instance == nvml::kNoInstance);
        if (is_meant && event.type == nvml::kXidEvent) {
          gpu.known.xid = static_cast<int64_t>(event.data);
        }
      }
    }
  }

  // Units of NVML: percent, milliwatts, millijoules since the driver was loaded, degrees Celsius,
  // MHz.
  contract::GpuSample sample(Gpu& gpu, Clock::time_point now) {
    const nvml::Device device = gpu.whole;
    const double share = gpu.known.slice_share.value_or(1);
    const bool is_slice = gpu.known.slice_of.has_value();
    contract::GpuSample sample = gpu.known;
    add_memory(gpu.device, sample);
    if (is_slice) {
      add_slice_use(gpu, sample);
    } else if (const auto use = find<nvml::Utilization>(calls_.utilization, device)) {
      sample.utilisation = use->gpu / 100.0;
      sample.memory_utilisation = use->memory / 100.0;
    }
    if (!is_slice || gpu.known.slice_share) {
      sample.power_watts = scaled(find<unsigned>(calls_.power, device), share * 1e-3);
      sample.energy_joules = scaled(find<Count>(calls_.energy, device), share * 1e-3);
    }
    sample.temperature =
        scaled(find<unsigned>(calls_.temperature, device, nvml::kTemperatureGpu), 1);
    sample.sm_clock_mhz = scaled(find<unsigned>(calls_.clock, device, nvml::kClockSm), 1);
    sample.memory_clock_mhz = scaled(find<unsigned>(calls_.clock, device, nvml::kClockMemory), 1);
    if (const auto errors = find<Count>(calls_.ecc, device, nvml::kUncorrected, nvml::kVolatile)) {
      sample.ecc_errors = static_cast<int64_t>(*errors);
    }
    if (!is_slice) {
      add_rates(gpu, sample, now);  // unknown for slices
    }
    return sample;
  }

  // nvmlDeviceGetUtilizationRates() is not available in MIG mode. GPUs before Hopper do not report
  // the utilization of a slice at all.
  void add_slice_use(Gpu& gpu, contract::GpuSample& sample) const {
    auto& [older, newer] = gpu.gpm;
    if (older == nullptr || newer == nullptr || calls_.take_gpm == nullptr ||
        calls_.read_gpm == nullptr ||
        calls_.take_gpm(gpu.whole, gpu.instance, newer) != nvml::kSuccess) {
      return;
    }
    nvml::GpmMetrics use{};
    use.version = nvml::kGpmVersion;
    use.count = 2;
    use.first = older;
    use.second = newer;
    use.metrics[0].metric = nvml::kGpmBusy;
    use.metrics[1].metric = nvml::kGpmBandwidth;
    if (gpu.has_gpm && calls_.read_gpm(&use) == nvml::kSuccess) {
      const auto read = [](const nvml::GpmMetric& metric) {
        return metric.result == nvml::kSuccess ? std::optional(metric.value / 100) : std::nullopt;
      };
      sample.utilisation = read(use.metrics[0]);
      sample.memory_utilisation = read(use.metrics[1]);
    }
    std::swap(older, newer);
    gpu.has_gpm = true;
  }

  // Memory used by programs, as nvidia-smi and DCGM report it: without the share that the driver
  // reserves.
  void add_memory(nvml::Device device, contract::GpuSample& sample) const {
    nvml::MemoryByUse memory{};
    memory.version = nvml::kMemoryByUse;
    if (calls_.memory_by_use != nullptr &&
        calls_.memory_by_use(device, &memory) == nvml::kSuccess &&
        memory.free + memory.reserved <= memory.total) {
      sample.memory_bytes = static_cast<int64_t>(memory.total - memory.free - memory.reserved);
      sample.memory_total_bytes = static_cast<int64_t>(memory.total);
    } else if (const auto all = find<nvml::Memory>(calls_.memory, device)) {
      sample.memory_bytes = static_cast<int64_t>(all->used);
      sample.memory_total_bytes = static_cast<int64_t>(all->total);
    }
  }

  void add_rates(Gpu& gpu, contract::GpuSample& sample, Clock::time_point now) {
    constexpr double kKib = 1024;
    sample.nvlink_sent_bytes_per_second =
        scaled(find_rate(gpu, nvml::kNvlinkSentKib, nvml::kAllLinks, now), kKib);
    sample.nvlink_received_bytes_per_second =
        scaled(find_rate(gpu, nvml::kNvlinkReceivedKib, nvml::kAllLinks, now), kKib);
    sample.pcie_sent_bytes_per_second = find_rate(gpu, nvml::kPcieSentBytes, 0, now);
    sample.pcie_received_bytes_per_second = find_rate(gpu, nvml::kPcieReceivedBytes, 0, now);
    // In the calls below, the driver measures for 20 ms each, so they are used only if it does not
    // have these counters.
    if (!gpu.counters[nvml::kPcieSentBytes].before) {
      constexpr double kKilobyte = 1000;
      sample.pcie_sent_bytes_per_second =
          scaled(find<unsigned>(calls_.pcie, gpu.device, nvml::kPcieSent), kKilobyte);
      sample.pcie_received_bytes_per_second =
          scaled(find<unsigned>(calls_.pcie, gpu.device, nvml::kPcieReceived), kKilobyte);
    }
  }

  // Counters have 32 bits on some GPUs and 64 on others. A 32-bit counter wraps around within
  // seconds; the difference modulo 2^32 is correct as long as it wraps at most once between two
  // samples. A 64-bit counter that decreases was reset by the driver, and the rate is unknown.
  std::optional<double> find_rate(Gpu& gpu, unsigned field, unsigned scope, Clock::time_point now) {
    nvml::FieldValue value{};
    value.field = field;
    value.scope = scope;
    Counter& counter = gpu.counters[field];
    const bool is_available = calls_.fields != nullptr &&
                              calls_.fields(gpu.device, 1, &value) == nvml::kSuccess &&
                              value.result == nvml::kSuccess;
    if (!is_available) {
      counter.before.reset();
      return std::nullopt;
    }
    const bool is_narrow = value.type == nvml::kNarrowValue;
    const Count count = is_narrow ? value.value.narrow : value.value.widest;
    const std::optional<Count> before = std::exchange(counter.before, count);
    const double seconds = before_ ? std::chrono::duration<double>(now - *before_).count() : 0;
    if (!before || seconds <= 0 || (count < *before && !is_narrow)) {
      return std::nullopt;
    }
    const Count grown = is_narrow ? static_cast<uint32_t>(count - *before) : count - *before;
    return static_cast<double>(grown) / seconds;
  }

  os::Library library_;
  Calls calls_;
  bool is_ready_ = false;
  nvml::EventSet events_ = nullptr;
  std::vector<Gpu> gpus_;
  bool has_mig_ = false;
  int more_slices_ = 0;  // devices in excess of the GPUs, because of slices
  std::optional<Clock::time_point> before_;
};

Nvml::Nvml(const std::string& library) {
  auto found = os::Library::find(library);
  if (!found) {
    why_not_ = fmt::format("{} was not found: no NVIDIA driver", library);
    return;
  }
  driver_ = std::make_unique<Driver>(std::move(*found));
  why_not_ = driver_->open();
  if (!why_not_.empty()) {
    driver_.reset();
  }
}

Nvml::~Nvml() = default;

std::vector<contract::GpuSample> Nvml::sample(Clock::time_point now) {
  return driver_ ? driver_->sample(now) : std::vector<contract::GpuSample>();
}

}  // namespace lockstep::cluster
