// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// The declarations of NVIDIA's management library that lockstep uses, according to its manual. They
// replace NVML's header, so that a build needs neither the header nor the library. Names are those
// of the library without the prefix "nvml"; layouts must match the C ABI of the library.
namespace lockstep::cluster::nvml {

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kNotSupported = 3;
inline constexpr Result kNoPermission = 4;

using Device = struct DeviceTag*;
using EventSet = struct EventSetTag*;
using GpmSample = struct GpmSampleTag*;

// NOLINTBEGIN(modernize-avoid-c-arrays): the layout of NVML.
struct PciInfo {
  char legacy_bus_id[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int device_id;
  unsigned int subsystem_id;
  char bus_id[32];
};
// NOLINTEND(modernize-avoid-c-arrays)

struct Utilization {
  unsigned int gpu;  // percent
  unsigned int memory;
};

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// Newer drivers report their own share separately.
struct MemoryByUse {
  unsigned int version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;  // with or without the reserved part, depending on the driver version
};
inline constexpr unsigned int kMemoryByUse = sizeof(MemoryByUse) | (2U << 24U);

struct FieldValue {
  unsigned int field;
  unsigned int scope;
  long long timestamp;
  long long latency;
  int type;
  Result result;
  union {
    double real;
    unsigned int narrow;
    unsigned long wide;
    unsigned long long widest;
    long long whole;
  } value;
};

struct EventData {
  Device device;
  unsigned long long type;
  unsigned long long data;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

struct ProcessInfo {
  unsigned int pid;
  unsigned long long memory;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

// Attributes of a MIG slice; not reported for a whole GPU.
struct Attributes {
  unsigned int multiprocessors;
  unsigned int copy_engines;
  unsigned int decoders;
  unsigned int encoders;
  unsigned int jpeg_engines;
  unsigned int flow_engines;
  unsigned int gpu_slices;
  unsigned int compute_slices;
  unsigned long long memory_mib;
};

// A performance metric between two samples of a GPU (GPM, since Hopper).
struct GpmMetric {
  unsigned int metric;
  Result result;
  double value;
  char* short_name;
  char* long_name;
  char* unit;
};

// The array of nvml.h is longer, but the library reads only the first `count` elements.
struct GpmMetrics {
  unsigned int version;
  unsigned int count;
  GpmSample first;
  GpmSample second;
  GpmMetric metrics[2];  // NOLINT(modernize-avoid-c-arrays): the layout of NVML.
};

// The sizes and offsets of nvml.h on a 64-bit Linux.
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, domain) == 16 &&
              offsetof(PciInfo, bus_id) == 36);
static_assert(sizeof(Utilization) == 8 && offsetof(Utilization, memory) == 4);
static_assert(sizeof(Memory) == 24 && offsetof(Memory, used) == 16);
static_assert(sizeof(MemoryByUse) == 40 && offsetof(MemoryByUse, total) == 8 &&
              offsetof(MemoryByUse, used) == 32);
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, timestamp) == 8 &&
              offsetof(FieldValue, type) == 24 && offsetof(FieldValue, value) == 32);
static_assert(sizeof(EventData) == 32 && offsetof(EventData, type) == 8 &&
              offsetof(EventData, gpu_instance) == 24);

static_assert(sizeof(ProcessInfo) == 24 && offsetof(ProcessInfo, gpu_instance) == 16);
static_assert(sizeof(Attributes) == 40 && offsetof(Attributes, memory_mib) == 32);
static_assert(sizeof(GpmMetric) == 40 && offsetof(GpmMetric, value) == 8);
static_assert(offsetof(GpmMetrics, first) == 8 && offsetof(GpmMetrics, metrics) == 24);

inline constexpr int kProhibited = 2;  // compute modes
inline constexpr int kExclusive = 3;
inline constexpr unsigned int kMigOn = 1;
inline constexpr unsigned int kNoInstance = ~0U;  // EventData::gpu_instance without MIG
inline constexpr unsigned int kGpmVersion = 1;
inline constexpr unsigned int kGpmBusy = 1;        // percent of time in which a kernel ran
inline constexpr unsigned int kGpmBandwidth = 10;  // percent of the memory bandwidth
inline constexpr int kTemperatureGpu = 0;
inline constexpr int kClockSm = 1;
inline constexpr int kClockMemory = 2;
inline constexpr int kPcieSent = 0;
inline constexpr int kPcieReceived = 1;
inline constexpr int kUncorrected = 1;
inline constexpr int kVolatile = 0;
inline constexpr unsigned long long kXidEvent = 8;
inline constexpr int kNarrowValue = 1;  // FieldValue::type of a 32-bit number
inline constexpr unsigned int kAllLinks = ~0U;
inline constexpr unsigned int kNvlinkSentKib = 138;
inline constexpr unsigned int kNvlinkReceivedKib = 139;
inline constexpr unsigned int kPcieSentBytes = 197;  // newer drivers only
inline constexpr unsigned int kPcieReceivedBytes = 198;

}  // namespace lockstep::cluster::nvml
