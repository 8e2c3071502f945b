// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/prometheus_gpus.h"

#include <array>
#include <cmath>
#include <fmt/format.h>

// The names, units and labels of NVIDIA's dcgm-exporter, so that existing Grafana dashboards work
// unchanged. Samples have base units and ratios (docs/events.md); dcgm-exporter has percent, MiB
// and mJ. Every conversion is in this file.
namespace lockstep::monitor {
namespace {

using contract::GpuSample;

constexpr double kPercent = 100;
constexpr double kMillijoules = 1000;

std::optional<double> scaled(const std::optional<double>& value, double by) {
  return value ? std::optional(*value * by) : std::nullopt;
}

std::optional<double> number(const std::optional<int64_t>& value) {
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

std::optional<double> mib(const std::optional<int64_t>& bytes) {
  constexpr int kBits = 20;
  return bytes ? std::optional(static_cast<double>(*bytes >> kBits)) : std::nullopt;
}

std::optional<double> free_mib(const GpuSample& gpu) {
  return gpu.memory_bytes && gpu.memory_total_bytes
             ? mib(*gpu.memory_total_bytes - *gpu.memory_bytes)
             : std::nullopt;
}

struct Metric {
  const char* name;
  const char* type;
  const char* help;
  std::optional<double> (*value)(const GpuSample& gpu);
};

constexpr auto kMetrics = std::to_array<Metric>({
    {"DCGM_FI_DEV_GPU_UTIL",
     "gauge",
     "GPU utilization (in %).",
     [](const GpuSample& gpu) {
       return scaled(gpu.utilisation, kPercent);
     }},
    {"DCGM_FI_DEV_MEM_COPY_UTIL",
     "gauge",
     "Memory utilization (in %).",
     [](const GpuSample& gpu) {
       return scaled(gpu.memory_utilisation, kPercent);
     }},
    {"DCGM_FI_DEV_FB_USED",
     "gauge",
     "Framebuffer memory used (in MiB).",
     [](const GpuSample& gpu) {
       return mib(gpu.memory_bytes);
     }},
    {"DCGM_FI_DEV_FB_FREE",
     "gauge",
     "Framebuffer memory free (in MiB).",
     [](const GpuSample& gpu) {
       return free_mib(gpu);
     }},
    {"DCGM_FI_DEV_POWER_USAGE",
     "gauge",
     "Power draw (in W).",
     [](const GpuSample& gpu) {
       return gpu.power_watts;
     }},
    {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
     "counter",
     "Total energy consumption since boot (in mJ).",
     [](const GpuSample& gpu) {
       return scaled(gpu.energy_joules, kMillijoules);
     }},
    {"DCGM_FI_DEV_GPU_TEMP",
     "gauge",
     "GPU temperature (in C).",
     [](const GpuSample& gpu) {
       return gpu.temperature;
     }},
    {"DCGM_FI_DEV_SM_CLOCK",
     "gauge",
     "SM clock frequency (in MHz).",
     [](const GpuSample& gpu) {
       return gpu.sm_clock_mhz;
     }},
    {"DCGM_FI_DEV_MEM_CLOCK",
     "gauge",
     "Memory clock frequency (in MHz).",
     [](const GpuSample& gpu) {
       return gpu.memory_clock_mhz;
     }},
    {"DCGM_FI_PROF_PCIE_RX_BYTES",
     "gauge",
     "Bytes received over the PCIe bus (per second).",
     [](const GpuSample& gpu) {
       return gpu.pcie_received_bytes_per_second;
     }},
    {"DCGM_FI_PROF_PCIE_TX_BYTES",
     "gauge",
     "Bytes sent over the PCIe bus (per second).",
     [](const GpuSample& gpu) {
       return gpu.pcie_sent_bytes_per_second;
     }},
    {"DCGM_FI_PROF_NVLINK_RX_BYTES",
     "gauge",
     "Bytes received over NVLink (per second).",
     [](const GpuSample& gpu) {
       return gpu.nvlink_received_bytes_per_second;
     }},
    {"DCGM_FI_PROF_NVLINK_TX_BYTES",
     "gauge",
     "Bytes sent over NVLink (per second).",
     [](const GpuSample& gpu) {
       return gpu.nvlink_sent_bytes_per_second;
     }},
    {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
     "counter",
     "Total number of double-bit volatile ECC errors.",
     [](const GpuSample& gpu) {
       return number(gpu.ecc_errors);
     }},
    {"DCGM_FI_DEV_XID_ERRORS",
     "gauge",
     "Value of the last XID error encountered.",
     [](const GpuSample& gpu) {
       return number(gpu.xid);
     }},
});

// The first seven labels are those of dcgm-exporter, with its spelling; lockstep adds run, node and
// rank. find_owner() is empty if ranks share the GPU, and an empty label is omitted. `gpu` and
// `device` of a MIG slice are those of its GPU; UUID and modelName distinguish slices.
MetricPage::Labels labels_of(const Snapshot& snapshot, const NodeView& node, const GpuSample& gpu) {
  const auto owner = find_owner(node, gpu.index);
  const int whole = gpu.slice_of.value_or(gpu.index);
  return {{"gpu", std::to_string(whole)},
          {"UUID", gpu.uuid},
          {"pci_bus_id", gpu.bus_id},
          {"device", fmt::format("nvidia{}", whole)},
          {"modelName", gpu.name},
          {"Hostname", node.sample.host},
          {"hpc_job", snapshot.job},
          {"run", snapshot.run_id},
          {"node", node.sample.host},
          {"rank", owner ? std::to_string(*owner) : ""}};
}

}  // namespace

void add_gpus(MetricPage& page, std::span<const Snapshot> runs) {
  for (const Metric& metric : kMetrics) {
    page.begin(metric.name, metric.type, metric.help);
    for (const Snapshot& run : runs) {
      for (const NodeView& node : run.nodes) {
        for (const GpuSample& gpu : node.sample.gpus) {
          page.add(labels_of(run, node, gpu), metric.value(gpu));
        }
      }
    }
  }
}

}  // namespace lockstep::monitor
