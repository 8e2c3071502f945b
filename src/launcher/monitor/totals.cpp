// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/totals.h"

#include <algorithm>

// A sample is an instant. To become a mean or an energy, each value is weighted with the time since
// the previous sample (SampleClock), which is 0 for the first sample and after a gap. What happened
// in a gap is unknown and counts neither for sums nor for the time that they are divided by.
namespace lockstep::monitor {
namespace {

// Two samples that are further apart than both limits have a gap between them: the job waited in
// the queue, or the agent was stopped. Gaps are not counted, because other jobs may have used the
// node meanwhile.
constexpr double kGapSeconds = 10;
constexpr double kGapSamples = 5;

constexpr double kBusy = 0.5;    // minimum utilization of a GPU at which its clock is judged
constexpr double kSlowed = 0.8;  // fraction of its fastest clock below which it is throttled

// The UUID is compared too: after a requeue, index 0 can be another GPU of the same host.
GpuTotals& gpu_of(HostTotals& host, const contract::GpuSample& gpu) {
  const auto found = std::find_if(host.gpus.begin(), host.gpus.end(), [&](const GpuTotals& one) {
    return one.last.index == gpu.index && one.last.uuid == gpu.uuid;
  });
  if (found != host.gpus.end()) {
    return *found;
  }
  host.gpus.emplace_back().last = gpu;
  return host.gpus.back();
}

// The counter of the GPU is exact; power times time is an estimate from instants. The counter is
// missing on GPUs before Volta, and restarts at 0 when the driver is loaded again.
void add_energy(GpuTotals& totals, const contract::GpuSample& gpu, double seconds) {
  const auto before = totals.last.energy_joules;
  const bool is_counted = before && gpu.energy_joules && *gpu.energy_joules >= *before;
  if (is_counted && gpu.slice_share) {
    totals.estimated_joules +=
        *gpu.energy_joules - *before;  // a fraction of the counter of the GPU
    totals.estimated_seconds += seconds;
  } else if (is_counted) {
    totals.counted_joules += *gpu.energy_joules - *before;
    totals.counted_seconds += seconds;
  } else if (gpu.power_watts) {
    totals.estimated_joules += *gpu.power_watts * seconds;
    totals.estimated_seconds += seconds;
  }
}

// The clock of an idle GPU is low by design. fastest_mhz is the maximum so far, so time before the
// first fast sample is never counted as slowed.
void add_clock(GpuTotals& totals, const contract::GpuSample& gpu, double seconds) {
  if (!gpu.sm_clock_mhz || gpu.utilisation.value_or(0) < kBusy) {
    return;
  }
  totals.fastest_mhz = std::max(totals.fastest_mhz, *gpu.sm_clock_mhz);
  totals.busy_seconds += seconds;
  if (*gpu.sm_clock_mhz < kSlowed * totals.fastest_mhz) {
    totals.slowed_seconds += seconds;
  }
}

}  // namespace

void TimeMean::add(double value, double lasted) {
  sum += value * lasted;
  seconds += lasted;
  high = std::max(high, value);
}

std::optional<double> TimeMean::mean() const {
  return seconds > 0 ? std::optional(sum / seconds) : std::nullopt;
}

double SampleClock::since_last(double time) {
  const double seconds = before_ > 0 ? time - before_ : 0;
  before_ = time;
  if (seconds <= 0) {
    return 0;
  }
  shortest_ = shortest_ > 0 ? std::min(shortest_, seconds) : seconds;
  return seconds > std::max(kGapSeconds, kGapSamples * shortest_) ? 0 : seconds;
}

void HostTally::add(const contract::NodeSample& sample) {
  if (hosts_.empty() || hosts_.back().host != sample.host) {
    hosts_.push_back({.host = sample.host});
    clock_ = {};
    counters_.clear();
  }
  HostTotals& host = hosts_.back();
  const double seconds = clock_.since_last(sample.time);
  host.seconds += seconds;
  ++host.samples;
  host.granted = sample.granted;
  host.peak_memory_bytes = std::max(host.peak_memory_bytes, sample.memory_bytes);
  host.memory_limit_bytes = sample.memory_limit_bytes;
  host.no_gpus = sample.no_gpus;
  double busy = 0;
  for (const contract::WorkerSample& worker : sample.workers) {
    busy += worker.cores;
  }
  if (seconds > 0) {
    host.cores.add(sample.cores, seconds);
    host.worker_cores.add(busy, seconds);
  }
  add_traffic(host, sample, seconds > 0);
  for (const contract::GpuSample& gpu : sample.gpus) {
    add_gpu(host, gpu, seconds);
  }
  for (const contract::WorkerSample& worker : sample.workers) {
    for (GpuTotals& gpu : host.gpus) {
      if (std::find(worker.gpus.begin(), worker.gpus.end(), gpu.last.index) != worker.gpus.end()) {
        ++gpu.ranks[worker.rank];
      }
    }
  }
  counters_.clear();
  for (const contract::InterfaceSample& one : sample.interfaces) {
    counters_[one.name] = {.received_bytes = one.received_bytes, .sent_bytes = one.sent_bytes};
  }
}

void HostTally::add_gpu(HostTotals& host, const contract::GpuSample& gpu, double seconds) {
  GpuTotals& totals = gpu_of(host, gpu);
  if (gpu.memory_bytes) {
    totals.peak_memory_bytes = std::max(totals.peak_memory_bytes.value_or(0), *gpu.memory_bytes);
  }
  if (gpu.temperature) {
    totals.hottest = std::max(totals.hottest.value_or(*gpu.temperature), *gpu.temperature);
  }
  if (gpu.xid) {
    totals.xid = gpu.xid;
  }
  const int64_t errors = gpu.ecc_errors.value_or(0) - totals.last.ecc_errors.value_or(0);
  if (totals.last.ecc_errors && errors > 0) {
    totals.new_ecc_errors += errors;
  }
  if (seconds > 0) {
    if (gpu.utilisation) {
      totals.utilisation.add(*gpu.utilisation, seconds);
    }
    if (gpu.power_watts) {
      totals.power_watts.add(*gpu.power_watts, seconds);
    }
    add_energy(totals, gpu, seconds);
    add_clock(totals, gpu, seconds);
  }
  totals.last = gpu;
}

// Traffic in a gap is not counted: other jobs may have caused it.
void HostTally::add_traffic(HostTotals& host,
                            const contract::NodeSample& sample,
                            bool is_next) const {
  for (const contract::InterfaceSample& one : sample.interfaces) {
    InterfaceTotals& totals = host.interfaces[one.name];
    const auto before = counters_.find(one.name);
    if (is_next && before != counters_.end()) {
      totals.received_bytes +=
          std::max<int64_t>(0, one.received_bytes - before->second.received_bytes);
      totals.sent_bytes += std::max<int64_t>(0, one.sent_bytes - before->second.sent_bytes);
    }
  }
}

}  // namespace lockstep::monitor
