// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "contract/node_sample.h"

// What has come together over a whole run, restarts included.
namespace lockstep::monitor {

// A quantity over time: each value counts for as long as it lasted.
struct TimeMean {
  double sum = 0;  // of value times seconds
  double seconds = 0;
  double high = 0;  // the greatest value

  void add(double value, double lasted);
  std::optional<double> mean() const;

  bool operator==(const TimeMean&) const = default;
};

// How long each sample stands for.
class SampleClock {
 public:
  // Seconds since the sample before; 0 where it does not follow on that one.
  double since_last(double time);

 private:
  double before_ = 0;    // 0: there was none
  double shortest_ = 0;  // time between two samples
};

// Where a worker's time went over all its step events, in seconds. Absent: not told.
struct RankTotals {
  double seconds = 0;  // from each start to the last event
  int64_t steps = 0;   // done in that time, also those done again after a restart
  std::optional<double> data = {};
  std::optional<double> compute = {};
  std::optional<double> exchange = {};
  std::optional<double> update = {};
  std::optional<double> checkpoint = {};
  std::optional<double> stall = {};  // for checkpoints, as their own events tell it
  TimeMean cores = {};

  bool operator==(const RankTotals&) const = default;
};

struct GpuTotals {
  contract::GpuSample last = {};
  std::map<int, int> ranks = {};  // that could use it, with the samples that said so
  TimeMean utilisation = {};
  TimeMean power_watts = {};
  std::optional<int64_t> peak_memory_bytes = {};
  double counted_joules = 0;     // by its own counter
  double counted_seconds = 0;    // in which that counter was there, and did not begin anew
  double estimated_joules = 0;   // power times time, for the rest
  double estimated_seconds = 0;  // of that rest
  double busy_seconds = 0;       // utilisation of a half at least, clock known
  double slowed_seconds = 0;     // of these, the clock far below the fastest seen
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

// A host for as long as it was a node of the run; another turn of the job may have another.
struct HostTotals {
  std::string host = {};
  double seconds = 0;  // looked at; a gap in the samples does not count
  int64_t samples = 0;
  int granted = 0;             // cores
  TimeMean cores = {};         // busy ones of these, whoever used them
  TimeMean worker_cores = {};  // that the workers kept busy
  int64_t peak_memory_bytes = 0;
  int64_t memory_limit_bytes = 0;
  std::map<std::string, InterfaceTotals> interfaces = {};
  std::vector<GpuTotals> gpus = {};
  std::string no_gpus = {};

  bool operator==(const HostTotals&) const = default;
};

// Adds one sample after the other to the totals of one node.
class HostTally {
 public:
  void add(const contract::NodeSample& sample);

  const std::vector<HostTotals>& hosts() const { return hosts_; }

 private:
  static void add_gpu(HostTotals& host, const contract::GpuSample& gpu, double seconds);
  void add_traffic(HostTotals& host, const contract::NodeSample& sample, bool is_next) const;

  std::vector<HostTotals> hosts_;
  std::map<std::string, InterfaceTotals> counters_;  // as the sample before had them
  SampleClock clock_;
};

}  // namespace lockstep::monitor
