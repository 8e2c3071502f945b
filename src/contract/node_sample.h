// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::contract {

// How a GPU is doing. What its driver does not tell is absent.
struct GpuSample {
  int index = 0;  // as nvidia-smi counts them
  std::string uuid = {};
  std::string name = {};
  std::string bus_id = {};
  std::optional<double> utilisation = {};  // 0 to 1: the share of time in which a kernel ran
  std::optional<double> memory_utilisation =
      {};  // 0 to 1: the share of time in which memory was used
  std::optional<int64_t> memory_bytes = {};
  std::optional<int64_t> memory_total_bytes = {};
  std::optional<double> power_watts = {};
  std::optional<double> energy_joules = {};  // since the driver was loaded
  std::optional<double> temperature = {};    // degrees Celsius
  std::optional<double> sm_clock_mhz = {};
  std::optional<double> memory_clock_mhz = {};
  std::optional<double> pcie_received_bytes_per_second = {};
  std::optional<double> pcie_sent_bytes_per_second = {};
  std::optional<double> nvlink_received_bytes_per_second = {};
  std::optional<double> nvlink_sent_bytes_per_second = {};
  std::optional<int64_t> ecc_errors = {};  // not corrected, since the last reset
  std::optional<int64_t> xid = {};         // the last error of the driver, if there was one

  bool operator==(const GpuSample&) const = default;
};

// Bytes since the node was started.
struct InterfaceSample {
  std::string name = {};
  int64_t received_bytes = 0;
  int64_t sent_bytes = 0;

  bool operator==(const InterfaceSample&) const = default;
};

// A worker and all that it has started.
struct WorkerSample {
  int rank = 0;
  int64_t pid = 0;
  double cores = 0;  // busy ones, since the sample before
  int64_t memory_bytes = 0;
  int64_t read_bytes = 0;  // from disks, since it began
  int64_t written_bytes = 0;
  std::vector<int> gpus = {};  // GpuSample::index of those that it may use

  bool operator==(const WorkerSample&) const = default;
};

// How a node is doing, as its agent sees it: one JSON line in RUN/events/node-N.jsonl,
// docs/events.md.
struct NodeSample {
  double time = 0;  // seconds since the epoch
  int node = 0;     // its number in the gang
  std::string host = {};
  double cores = 0;          // busy ones of those that the run was granted, since the sample before
  int granted = 0;           // cores
  int64_t memory_bytes = 0;  // of all workers
  int64_t memory_limit_bytes = 0;
  std::vector<InterfaceSample> interfaces = {};
  std::vector<GpuSample> gpus = {};
  std::string no_gpus = {};  // why `gpus` is empty, in words
  std::vector<WorkerSample> workers = {};

  bool operator==(const NodeSample&) const = default;
};

std::string to_json(const NodeSample& sample);

// Throws an Error that quotes the line if it is none. Fields that it does not know are left alone.
NodeSample parse_node_sample(std::string_view line);

}  // namespace lockstep::contract
