// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::contract {

// The state of a GPU, or of a MIG slice: a GPU in MIG mode is not sampled itself, its slices are.
// Values that the driver does not report are absent. Temperature, clocks and errors of a slice are
// those of its GPU.
struct GpuSample {
  int index = 0;  // as in nvidia-smi; with MIG, the number among all GPUs and slices
  std::optional<int> slice_of = {};  // number of the GPU, as in nvidia-smi, if this is a slice
  // Of a slice: fraction of the multiprocessors of its GPU. Power and energy are only measured for
  // the whole GPU; those of the slice are estimated as this fraction.
  std::optional<double> slice_share = {};
  std::string uuid = {};
  std::string name = {};
  std::string bus_id = {};
  std::optional<double> utilisation = {};  // 0 to 1: fraction of time in which a kernel ran
  std::optional<double> memory_utilisation =
      {};  // 0 to 1: fraction of time in which memory was accessed
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
  std::optional<int64_t> ecc_errors = {};  // uncorrected, since the last reset
  std::optional<int64_t> xid = {};         // the last driver error, if any

  bool operator==(const GpuSample&) const = default;
};

// Bytes since boot.
struct InterfaceSample {
  std::string name = {};
  int64_t received_bytes = 0;
  int64_t sent_bytes = 0;

  bool operator==(const InterfaceSample&) const = default;
};

// A worker and all its descendants.
struct WorkerSample {
  int rank = 0;
  int64_t pid = 0;
  double cores = 0;  // busy cores since the previous sample
  int64_t memory_bytes = 0;
  int64_t read_bytes = 0;  // from disks, since its start
  int64_t written_bytes = 0;
  std::vector<int> gpus = {};  // GpuSample::index of the GPUs that it can use

  bool operator==(const WorkerSample&) const = default;
};

// The state of a node, sampled by its agent: one JSON line in RUN/events/node-N.jsonl; see
// docs/events.md.
struct NodeSample {
  double time = 0;  // seconds since the epoch
  int node = 0;     // node rank
  std::string host = {};
  double cores = 0;          // busy cores of the granted ones, since the previous sample
  int granted = 0;           // granted cores
  int64_t memory_bytes = 0;  // of all workers
  int64_t memory_limit_bytes = 0;
  std::vector<InterfaceSample> interfaces = {};
  std::vector<GpuSample> gpus = {};
  std::string no_gpus = {};  // why `gpus` is empty
  std::vector<WorkerSample> workers = {};

  bool operator==(const NodeSample&) const = default;
};

std::string to_json(const NodeSample& sample);

// Throws an Error that quotes the line if it is not a sample. Ignores unknown fields.
NodeSample parse_node_sample(std::string_view line);

}  // namespace lockstep::contract
