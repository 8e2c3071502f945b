// SPDX-License-Identifier: Apache-2.0
// A fake libnvidia-ml.so.1: the functions that lockstep uses, with the names and types of NVIDIA's
// manual.
#include "common/cluster/fake_gpu_driver.h"

#include <cstdio>
#include <cstring>

#include "common/cluster/nvml_calls.h"

using namespace lockstep::cluster::nvml;

namespace {

constexpr Result kTimeout = 10;
constexpr Result kLost = 15;

FakeNvmlState state;
char devices[16];
char event_set;

constexpr int kFirstSlice = 8;  // devices[8] and later are slices
constexpr unsigned kMaxSlices = 7;
constexpr unsigned kFirstInstance = 3;

int number_of(Device device) {
  return static_cast<int>(reinterpret_cast<char*>(device) - devices);
}

bool is_slice(Device device) {
  return number_of(device) >= kFirstSlice;
}

template <typename Value>
Result tell(Value* out, Value value) {
  if (state.is_silent) {
    return kNotSupported;
  }
  *out = value;
  return kSuccess;
}

}  // namespace

extern "C" {

FakeNvmlState* fake_nvml_state() {
  return &state;
}

Result nvmlInit_v2() {
  state.inits += state.init_result == kSuccess ? 1 : 0;
  return state.init_result;
}
Result nvmlShutdown() {
  ++state.shutdowns;
  return kSuccess;
}
const char* nvmlErrorString(Result result) {
  return result == 9 ? "Driver Not Loaded" : "Unknown Error";
}
Result nvmlDeviceGetCount_v2(unsigned* count) {
  *count = state.count;
  return kSuccess;
}
Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = reinterpret_cast<Device>(devices + index);
  return static_cast<int>(index) == state.lost_device ? kLost : kSuccess;
}
Result nvmlDeviceGetUUID(Device device, char* text, unsigned size) {
  const int number = number_of(device);
  std::snprintf(text,
                size,
                is_slice(device) ? "MIG-%d-uuid" : "GPU-%d-uuid",
                is_slice(device) ? number - kFirstSlice : number);
  return kSuccess;
}
Result nvmlDeviceGetName(Device device, char* text, unsigned size) {
  std::snprintf(text, size, is_slice(device) ? "NVIDIA Fake MIG 2g.20gb" : "NVIDIA Fake");
  return kSuccess;
}
Result nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  std::snprintf(info->bus_id, sizeof(info->bus_id), "00000000:%02X:00.0", number_of(device) + 0x1A);
  return kSuccess;
}
Result nvmlDeviceGetUtilizationRates(Device device, Utilization* use) {
  return is_slice(device) ? kNotSupported : tell(use, Utilization{93, 41});
}
Result nvmlDeviceGetMemoryInfo(Device, Memory* memory) {
  return tell(memory, Memory{100'000, 60'000, 40'000});
}
// The version field contains the size of the structure that the caller expects.
Result nvmlDeviceGetMemoryInfo_v2(Device device, MemoryByUse* memory) {
  if (is_slice(device)) {
    return tell(memory, MemoryByUse{memory->version, 20'000, 0, 15'000, 5'000});
  }
  if (!state.has_reserved_memory || memory->version != kMemoryByUse) {
    return kNotSupported;
  }
  return tell(memory, MemoryByUse{memory->version, 100'000, 3'000, 60'000, 37'000});
}
Result nvmlDeviceGetPowerUsage(Device device, unsigned* power) {
  return is_slice(device) ? kNotSupported : tell(power, 612'500U);
}
Result nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* energy) {
  return is_slice(device) ? kNotSupported : tell(energy, 7'000'000ULL);
}
Result nvmlDeviceGetTemperature(Device, int sensor, unsigned* temperature) {
  return tell(temperature, sensor == kTemperatureGpu ? 64U : 0U);
}
Result nvmlDeviceGetClockInfo(Device, int kind, unsigned* clock) {
  return tell(clock, kind == kClockSm ? 1980U : kind == kClockMemory ? 3201U : 0U);
}
Result nvmlDeviceGetPcieThroughput(Device, int counter, unsigned* rate) {
  return tell(rate, counter == kPcieSent ? 11U : 22U);
}
Result nvmlDeviceGetTotalEccErrors(Device, int kind, int counter, unsigned long long* errors) {
  return tell(errors, kind == kUncorrected && counter == kVolatile ? 3ULL : 99ULL);
}
Result nvmlDeviceGetFieldValues(Device, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    FieldValue& value = values[i];
    const bool is_nvlink = value.field == kNvlinkSentKib || value.field == kNvlinkReceivedKib;
    const bool is_sent = value.field == kNvlinkSentKib || value.field == kPcieSentBytes;
    const bool is_known =
        is_nvlink ? state.has_nvlink && value.scope == kAllLinks : state.has_pcie_counters;
    value.result = is_known && !state.is_silent ? kSuccess : kNotSupported;
    const unsigned long long bytes = is_sent ? state.sent : state.received;
    value.type = state.is_narrow ? kNarrowValue : 3;
    if (state.is_narrow) {
      value.value.narrow = static_cast<unsigned>(bytes);
    } else {
      value.value.widest = bytes;
    }
  }
  return kSuccess;
}
Result nvmlDeviceGetComputeMode(Device, int* mode) {
  *mode = state.compute_mode;
  return kSuccess;
}
Result nvmlDeviceGetComputeRunningProcesses_v3(Device, unsigned* count, ProcessInfo* processes) {
  for (unsigned i = 0; i < state.processes; ++i) {
    processes[i] = {.pid = 4711 + i, .memory = 1, .gpu_instance = 0, .compute_instance = 0};
  }
  *count = state.processes;
  return kSuccess;
}
Result nvmlDeviceGetMinorNumber(Device device, unsigned* minor) {
  return tell(minor, static_cast<unsigned>(number_of(device)));
}
Result nvmlDeviceGetMigMode(Device device, unsigned* now, unsigned* after_reset) {
  *now = *after_reset = number_of(device) == state.mig_device ? kMigOn : 0;
  return kSuccess;
}
Result nvmlDeviceGetMaxMigDeviceCount(Device, unsigned* count) {
  *count = kMaxSlices;
  return kSuccess;
}
Result nvmlDeviceGetMigDeviceHandleByIndex(Device, unsigned index, Device* slice) {
  *slice = reinterpret_cast<Device>(devices + kFirstSlice + index);
  return (state.slices >> index & 1U) != 0 ? kSuccess : state.missing_slice;
}
Result nvmlDeviceGetGpuInstanceId(Device slice, unsigned* instance) {
  *instance = kFirstInstance + static_cast<unsigned>(number_of(slice) - kFirstSlice);
  return kSuccess;
}
Result nvmlDeviceGetAttributes_v2(Device device, Attributes* attributes) {
  if (!is_slice(device)) {
    return kNotSupported;
  }
  *attributes = {.multiprocessors = 32,
                 .copy_engines = 2,
                 .decoders = 1,
                 .encoders = 0,
                 .jpeg_engines = 1,
                 .flow_engines = 0,
                 .gpu_slices = 2,
                 .compute_slices = 2,
                 .memory_mib = 20'000};
  return kSuccess;
}
Result nvmlGpmSampleAlloc(GpmSample* sample) {
  ++state.open_gpm;
  *sample = reinterpret_cast<GpmSample>(devices + state.open_gpm);
  return kSuccess;
}
Result nvmlGpmSampleFree(GpmSample) {
  --state.open_gpm;
  return kSuccess;
}
Result nvmlGpmMigSampleGet(Device, unsigned, GpmSample) {
  return state.has_gpm ? kSuccess : kNotSupported;
}
Result nvmlGpmMetricsGet(GpmMetrics* use) {
  for (unsigned i = 0; i < use->count; ++i) {
    use->metrics[i].result = use->first != use->second ? kSuccess : kNotSupported;
    use->metrics[i].value = use->metrics[i].metric == kGpmBusy ? 75 : 20;
  }
  return kSuccess;
}
Result nvmlEventSetCreate(EventSet* set) {
  ++state.open_sets;
  *set = reinterpret_cast<EventSet>(&event_set);
  return kSuccess;
}
Result nvmlEventSetFree(EventSet) {
  --state.open_sets;
  return kSuccess;
}
Result nvmlDeviceRegisterEvents(Device, unsigned long long kinds, EventSet) {
  return kinds == kXidEvent ? kSuccess : kNotSupported;
}
Result nvmlEventSetWait_v2(EventSet, EventData* event, unsigned) {
  if (state.xid == 0) {
    return kTimeout;
  }
  *event = {reinterpret_cast<Device>(devices + state.xid_device),
            kXidEvent,
            state.xid,
            state.xid_instance,
            0};
  state.xid = 0;
  return kSuccess;
}

}  // extern "C"
