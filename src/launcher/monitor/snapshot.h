// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/node_sample.h"
#include "launcher/monitor/totals.h"

// The state of a run as plain values; every view of it is made from these.
namespace lockstep::monitor {

// The phase of a run that has events but no files of `lockstep run`.
inline constexpr const char* kNotOurs = "unknown (not started by lockstep)";

// A single occurrence, such as a checkpoint.
struct Mark {
  enum class Kind { Start, Restart, Checkpoint, Evaluation, End };

  double time = 0;
  int64_t step = -1;  // -1: unknown
  Kind kind = Kind::Start;
  std::string text = {};  // "accuracy 0.9812, loss 0.061"

  bool operator==(const Mark&) const = default;
};

// "restart"
std::string name_of(Mark::Kind kind);

// How a worker spends its time, in seconds per step. Absent: not reported.
struct TimeSplit {
  std::optional<double> data = {};      // waiting for batches
  std::optional<double> compute = {};   // forward, backward, optimizer
  std::optional<double> exchange = {};  // exposed communication: waiting for others and sending
  std::optional<double> checkpoint = {};

  bool operator==(const TimeSplit&) const = default;
};

struct RankView {
  int rank = 0;
  int node = -1;    // index into Snapshot::nodes; -1: not reported by any agent
  double time = 0;  // of its last event; 0: no event yet
  int64_t step = -1;
  std::optional<double> epoch = {};
  std::optional<double> loss = {};
  std::optional<double> learning_rate = {};
  std::optional<double> samples_per_second = {};  // of all workers, as this rank measured it
  std::optional<double> gradient_norm = {};
  std::optional<double> step_seconds = {};  // by the clock, over the last events
  std::optional<double> own_seconds = {};   // of these, without waiting for other ranks
  TimeSplit split = {};
  std::optional<int64_t> memory_bytes = {};         // resident; from the agent or the worker
  std::optional<int64_t> peak_memory_bytes = {};    // maximum of all reports
  std::optional<int64_t> device_memory_bytes = {};  // reserved by the worker's allocator
  std::optional<double> cores = {};                 // busy cores
  std::vector<int> gpus = {};                       // GpuSample::index on its node
  bool has_ended = false;
  int64_t steps_behind = 0;  // behind the foremost rank
  bool is_straggler = false;
  std::string why_straggler = {};  // "slow: own step time 0.31 s, median 0.2 s"
  RankTotals totals = {};

  bool operator==(const RankView&) const = default;
};

struct NodeView {
  contract::NodeSample sample = {};                // the last sample
  std::optional<double> received_per_second = {};  // bytes, all interfaces except the loopback
  std::optional<double> sent_per_second = {};
  std::vector<HostTotals> hosts = {};  // hosts that have been this node, in order

  bool operator==(const NodeView&) const = default;
};

struct Snapshot {
  std::string directory = {};
  std::string run_id = {};
  std::string job = {};    // Slurm job ID; empty: none
  std::string phase = {};  // from state.json, e.g. "running"; empty: unknown
  std::vector<std::string> command = {};
  std::string strategy = {};
  std::string transport = {};
  int attempt = 0;
  int restarts = 0;
  int world_size = 0;
  double started = 0;  // 0: unknown
  double updated = 0;  // newest time in any file
  std::optional<double> ended = {};
  std::optional<int> exit_code = {};

  int64_t step = -1;  // completed by all ranks; -1: none
  int64_t steps = 0;  // total; 0: unknown
  int64_t global_batch = 0;
  int64_t gradient_bytes = 0;  // that a worker exchanges in a step; 0: unknown
  std::optional<double> epoch = {};
  std::optional<double> loss = {};
  std::optional<double> bad_loss_time = {};  // of the first loss of rank 0 that was not finite
  int64_t bad_loss_step = -1;                // its step; -1: unknown, or there was no such loss
  std::optional<double> learning_rate = {};
  std::optional<double> samples_per_second = {};
  std::optional<double> gradient_norm = {};
  std::optional<double> step_seconds = {};
  std::optional<double> seconds_left = {};
  std::optional<double> evaluation_loss = {};  // of the last evaluation
  std::optional<double> accuracy = {};
  std::optional<double> top5 = {};
  int64_t evaluations = 0;
  int64_t checkpoints = 0;
  int64_t checkpoint_step = -1;                   // of the newest checkpoint
  double checkpoint_time = 0;                     // of the newest checkpoint; 0: none
  double checkpoint_seconds = 0;                  // total time that checkpoints blocked training
  std::optional<double> first_step_seconds = {};  // since the command was started
  std::map<std::string, double> output_metrics = {};  // from the output of rank 0, by name

  std::vector<RankView> ranks = {};  // ascending
  std::vector<NodeView> nodes = {};  // ascending by number
  int64_t events = 0;                // lines that were parsed
  int64_t bad_lines = 0;             // lines that could not be parsed

  bool operator==(const Snapshot&) const = default;
};

// The GPU with that index on a node; nullptr if the node has not reported it.
const contract::GpuSample* find_gpu(const NodeView& node, int index);

// The rank that has exclusive use of a GPU; nothing if no rank or several ranks can use it.
std::optional<int> find_owner(const NodeView& node, int gpu);

}  // namespace lockstep::monitor
