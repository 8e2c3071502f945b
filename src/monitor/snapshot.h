// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "contract/node_sample.h"
#include "monitor/totals.h"

// How a run is doing, as plain values: what every view of it is made from.
namespace lockstep::monitor {

// The phase of a run of which there are events, and nothing that `lockstep run` writes.
inline constexpr const char* kNotOurs = "unknown (not started by lockstep)";

// Something that happened once.
struct Mark {
  enum class Kind { Start, Restart, Checkpoint, Evaluation, End };

  double time = 0;
  int64_t step = -1;  // -1: not told
  Kind kind = Kind::Start;
  std::string text = {};  // "accuracy 0.9812, loss 0.061"

  bool operator==(const Mark&) const = default;
};

// "restart"
std::string name_of(Mark::Kind kind);

// Where a worker's time went, in seconds per step. Absent: not told.
struct TimeSplit {
  std::optional<double> data = {};      // waiting for batches
  std::optional<double> compute = {};   // forward, backward, optimizer
  std::optional<double> exchange = {};  // waiting for the others, and sending
  std::optional<double> checkpoint = {};

  bool operator==(const TimeSplit&) const = default;
};

struct RankView {
  int rank = 0;
  int node = -1;    // index into Snapshot::nodes; -1: no agent has told
  double time = 0;  // of its last event; 0: there was none
  int64_t step = -1;
  std::optional<double> epoch = {};
  std::optional<double> loss = {};
  std::optional<double> learning_rate = {};
  std::optional<double> samples_per_second = {};  // of the whole gang, as this rank saw it
  std::optional<double> gradient_norm = {};
  std::optional<double> step_seconds = {};  // by the clock, over the last events
  std::optional<double> own_seconds = {};   // of these, without waiting for others
  TimeSplit split = {};
  std::optional<int64_t> memory_bytes = {};         // resident; of the agent, else of the worker
  std::optional<int64_t> peak_memory_bytes = {};    // the most that was ever told
  std::optional<int64_t> device_memory_bytes = {};  // held, as the worker's allocator counts
  std::optional<double> cores = {};                 // busy ones
  std::vector<int> gpus = {};                       // GpuSample::index on its node
  bool has_ended = false;
  int64_t steps_behind = 0;  // of the foremost rank
  bool is_straggler = false;
  std::string why_straggler = {};  // "own step time 0.31 s, the others 0.20 s"
  RankTotals totals = {};

  bool operator==(const RankView&) const = default;
};

struct NodeView {
  contract::NodeSample sample = {};                // the last one
  std::optional<double> received_per_second = {};  // bytes, all interfaces but the loopback
  std::optional<double> sent_per_second = {};
  std::vector<HostTotals> hosts = {};  // that have been this node, the last one last

  bool operator==(const NodeView&) const = default;
};

struct Snapshot {
  std::string directory = {};
  std::string run_id = {};
  std::string job = {};    // Slurm's; empty: none
  std::string phase = {};  // "running", as state.json says; empty: nothing is known
  std::vector<std::string> command = {};
  std::string strategy = {};
  std::string transport = {};
  int attempt = 0;
  int restarts = 0;
  int world_size = 0;
  double started = 0;  // 0: not told
  double updated = 0;  // the newest sign of life in any file
  std::optional<double> ended = {};
  std::optional<int> exit_code = {};

  int64_t step = -1;  // that all ranks have done
  int64_t steps = 0;  // in all; 0: not told
  int64_t global_batch = 0;
  std::optional<double> epoch = {};
  std::optional<double> loss = {};
  std::optional<double> bad_loss_time = {};  // when rank 0's first was no finite number
  int64_t bad_loss_step = -1;                // -1: there was none, or the step was not told
  std::optional<double> learning_rate = {};
  std::optional<double> samples_per_second = {};
  std::optional<double> gradient_norm = {};
  std::optional<double> step_seconds = {};
  std::optional<double> seconds_left = {};
  std::optional<double> evaluation_loss = {};  // of the last one
  std::optional<double> accuracy = {};
  std::optional<double> top5 = {};
  int64_t evaluations = 0;
  int64_t checkpoints = 0;
  int64_t checkpoint_step = -1;   // of the newest
  double checkpoint_time = 0;     // 0: there is none
  double checkpoint_seconds = 0;  // for which training stood still, over all of them
  std::optional<double> first_step_seconds = {};      // since the command was typed
  std::map<std::string, double> output_metrics = {};  // found in rank 0's output, by name

  std::vector<RankView> ranks = {};  // ascending
  std::vector<NodeView> nodes = {};  // ascending by number
  int64_t events = 0;                // lines that were read
  int64_t bad_lines = 0;             // that were no events

  bool operator==(const Snapshot&) const = default;
};

// The GPU of that number on a node; nullptr: it has told of none.
const contract::GpuSample* find_gpu(const NodeView& node, int index);

// The only rank that may use a GPU; nothing when there is none, or more than one.
std::optional<int> find_owner(const NodeView& node, int gpu);

}  // namespace lockstep::monitor
