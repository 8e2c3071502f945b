// SPDX-License-Identifier: Apache-2.0
#include "monitor/prometheus.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::monitor {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') {
      safe += '\\';
      safe += letter;
    } else if (letter == '\n') {
      safe += "\\n";
    } else {
      safe += letter;
    }
  }
  return safe;
}

std::string number_text(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "+Inf" : "-Inf";
  }
  return fmt::format("{}", value);
}

// A page in Prometheus' format, metric by metric.
class Page {
 public:
  // Begins a metric; its head is written only if a value comes.
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    head_ = fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }

  void add(const Labels& labels, double value) {
    text_ += std::exchange(head_, "");
    text_ += name_;
    std::string_view before = "{";
    for (const auto& [label, content] : labels) {
      text_ += fmt::format("{}{}=\"{}\"", before, label, escaped(content));
      before = ",";
    }
    text_ += fmt::format("{} {}\n", labels.empty() ? "" : "}", number_text(value));
  }

  template <typename Number>
  void add(const Labels& labels, const std::optional<Number>& value) {
    if (value) {
      add(labels, static_cast<double>(*value));
    }
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::string name_;
  std::string head_;
};

constexpr double kMib = 1024.0 * 1024.0;
constexpr double kPercent = 100;
constexpr double kMillijoules = 1000;

std::optional<double> scaled(const std::optional<double>& value, double by) {
  return value ? std::optional(*value * by) : std::nullopt;
}

std::optional<double> mib(const std::optional<int64_t>& bytes) {
  return bytes ? std::optional(std::floor(static_cast<double>(*bytes) / kMib)) : std::nullopt;
}

std::optional<double> free_mib(const contract::GpuSample& gpu) {
  if (!gpu.memory_bytes || !gpu.memory_total_bytes) {
    return std::nullopt;
  }
  return mib(*gpu.memory_total_bytes - *gpu.memory_bytes);
}

// What DCGM's exporter calls it, in its units.
struct GpuMetric {
  const char* name;
  const char* type;
  const char* help;
  std::optional<double> (*value)(const contract::GpuSample& gpu);
};

constexpr GpuMetric kGpuMetrics[] = {
    {"DCGM_FI_DEV_GPU_UTIL",
     "gauge",
     "GPU utilization (in %).",
     [](const contract::GpuSample& gpu) {
       return scaled(gpu.utilisation, kPercent);
     }},
    {"DCGM_FI_DEV_MEM_COPY_UTIL",
     "gauge",
     "Memory utilization (in %).",
     [](const contract::GpuSample& gpu) {
       return scaled(gpu.memory_utilisation, kPercent);
     }},
    {"DCGM_FI_DEV_FB_USED",
     "gauge",
     "Framebuffer memory used (in MiB).",
     [](const contract::GpuSample& gpu) {
       return mib(gpu.memory_bytes);
     }},
    {"DCGM_FI_DEV_FB_FREE",
     "gauge",
     "Framebuffer memory free (in MiB).",
     [](const contract::GpuSample& gpu) {
       return free_mib(gpu);
     }},
    {"DCGM_FI_DEV_POWER_USAGE",
     "gauge",
     "Power draw (in W).",
     [](const contract::GpuSample& gpu) {
       return gpu.power_watts;
     }},
    {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
     "counter",
     "Total energy consumption since boot (in mJ).",
     [](const contract::GpuSample& gpu) {
       return scaled(gpu.energy_joules, kMillijoules);
     }},
    {"DCGM_FI_DEV_GPU_TEMP",
     "gauge",
     "GPU temperature (in C).",
     [](const contract::GpuSample& gpu) {
       return gpu.temperature;
     }},
    {"DCGM_FI_DEV_SM_CLOCK",
     "gauge",
     "SM clock frequency (in MHz).",
     [](const contract::GpuSample& gpu) {
       return gpu.sm_clock_mhz;
     }},
    {"DCGM_FI_DEV_MEM_CLOCK",
     "gauge",
     "Memory clock frequency (in MHz).",
     [](const contract::GpuSample& gpu) {
       return gpu.memory_clock_mhz;
     }},
};

}  // namespace

std::string prometheus_text(const Snapshot& snapshot, double now) {
  Page page;
  for (const GpuMetric& metric : kGpuMetrics) {
    page.begin(metric.name, metric.type, metric.help);
    for (const NodeView& node : snapshot.nodes) {
      for (const contract::GpuSample& gpu : node.sample.gpus) {
        page.add({{"gpu", std::to_string(gpu.index)}, {"UUID", gpu.uuid}}, metric.value(gpu));
      }
    }
  }
  page.begin("lockstep_heartbeat_age_seconds", "gauge", "Since the last sign of life.");
  page.add({{"run", snapshot.run_id}}, std::max(0.0, now - snapshot.updated));
  page.begin("lockstep_loss", "gauge", "Training loss.");
  page.add({{"run", snapshot.run_id}}, snapshot.loss);
  return page.take();
}

}  // namespace lockstep::monitor
