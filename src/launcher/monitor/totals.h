// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/node_sample.h"

// Totals over a whole run, restarts included.
namespace lockstep::monitor {

// The time-weighted mean of a quantity.
struct TimeMean {
  double sum = 0;  // of value times seconds
  double seconds = 0;
  double high = 0;  // maximum

  void add(double value, double lasted);
  std::optional<double> mean() const;

  bool operator==(const TimeMean&) const = default;
};

// Computes the time that each sample represents.
class SampleClock {
 public:
  // Seconds since the previous sample; 0 for the first sample and after a gap.
  double since_last(double time);

 private:
  double before_ = 0;    // time of the previous sample; 0: none
  double shortest_ = 0;  // shortest time between two samples
};

// How a worker spent its time over all its step events, in seconds. Absent: not reported.
struct RankTotals {
  double seconds = 0;  // from each start to the last event
  int64_t steps = 0;   // steps in that time, including those repeated after a restart
  std::optional<double> data = {};
  std::optional<double> compute = {};
  std::optional<double> exchange = {};
  std::optional<double> update = {};
  std::optional<double> checkpoint = {};
  std::optional<double> stall = {};  // blocked by checkpoints, from the checkpoint events
  TimeMean cores = {};

  bool operator==(const RankTotals&) const = default;
};

struct GpuTotals {
  contract::GpuSample last = {};
  std::map<int, int> ranks = {};  // ranks that could use it, each with its number of samples
  TimeMean utilisation = {};
  TimeMean power_watts = {};
  std::optional<int64_t> peak_memory_bytes = {};
  double counted_joules = 0;     // from the energy counter of the GPU
  double counted_seconds = 0;    // time in which the counter was available and was not reset
  double estimated_joules = 0;   // power times time, for the remaining time; all of a MIG slice
  double estimated_seconds = 0;  // the remaining time
  double busy_seconds = 0;       // time with a utilization of at least a half and a known clock
  double slowed_seconds = 0;     // part of busy_seconds with a clock far below fastest_mhz
  double fastest_mhz = 0;
  std::optional<double> hottest = {};
  int64_t new_ecc_errors = 0;  // since the first sample
  std::optional<int64_t> xid = {};

  bool operator==(const GpuTotals&) const = default;
};

struct InterfaceTotals {
  int64_t received_bytes = 0;
  int64_t sent_bytes = 0;

  bool operator==(const InterfaceTotals&) const = default;
};

// The totals of a host while it was a node of the run. After a requeue the same node can be another
// host.
struct HostTotals {
  std::string host = {};
  double seconds = 0;  // time covered by samples, without gaps
  int64_t samples = 0;
  int granted = 0;             // cores
  TimeMean cores = {};         // busy cores among these, used by any process
  TimeMean worker_cores = {};  // busy cores used by the workers
  int64_t peak_memory_bytes = 0;
  int64_t memory_limit_bytes = 0;
  std::map<std::string, InterfaceTotals> interfaces = {};
  std::vector<GpuTotals> gpus = {};
  std::string no_gpus = {};

  bool operator==(const HostTotals&) const = default;
};

// Adds the samples of one node to its totals, in order of time.
class HostTally {
 public:
  void add(const contract::NodeSample& sample);

  const std::vector<HostTotals>& hosts() const { return hosts_; }

 private:
  static void add_gpu(HostTotals& host, const contract::GpuSample& gpu, double seconds);
  void add_traffic(HostTotals& host, const contract::NodeSample& sample, bool is_next) const;

  std::vector<HostTotals> hosts_;
  std::map<std::string, InterfaceTotals> counters_;  // of the previous sample
  SampleClock clock_;
};

}  // namespace lockstep::monitor
