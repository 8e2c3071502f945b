// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/contract/failure_report.h"
#include "launcher/report/advice.h"
#include "launcher/report/run_facts.h"
#include "support/made_up_gang.h"

namespace lockstep::testing {

inline constexpr int64_t kGiB = int64_t{1} << 30;

// The properties of a fake training run. By default no rule applies: two nodes, four workers with
// one GPU each on both, one minute.
struct Training {
  int nodes = 2;
  int workers = 4;  // on each node
  int gpus = 4;     // on each node
  int seconds = 60;
  bool has_events = true;
  bool has_samples = true;
  std::string job = "4711";
  contract::RunPhase phase = contract::RunPhase::Done;
  std::optional<int> exit_code = 0;
  int attempt = 0;
  // Of each worker, in seconds per second.
  double data = 0.05;
  double compute = 0.7;
  double exchange = 0.1;
  double update = 0.1;
  std::map<int, double> data_of = {};  // by rank, where it differs
  std::map<int, double> compute_of = {};
  double cores = 2.5;          // busy cores of each worker
  int granted = 16;            // on each node
  double foreign = 0;          // cores used by other processes
  int64_t memory = 16 * kGiB;  // of each worker
  int64_t memory_limit = 128 * kGiB;
  double utilisation = 0.95;
  std::map<int, double> utilisation_of = {};  // by GPU, numbered over all nodes
  int64_t gpu_memory = 48 * kGiB;             // of 80
  std::map<int, int64_t> gpu_memory_of = {};
  // Changes a GPU sample; the arguments are its number over all nodes and the second.
  std::function<void(contract::GpuSample&, int, int)> gpu_sample = {};
};

// The run directory of such a training run.
class MadeUpTraining {
 public:
  static constexpr double kStart = MadeUpGang::kStart;

  explicit MadeUpTraining(Training wish = {}) : wish_(std::move(wish)) {
    write_state();
    for (int node = 0; node < wish_.nodes && wish_.has_samples; ++node) {
      std::string lines;
      for (int second = 0; second <= wish_.seconds; ++second) {
        lines += contract::to_json(sample(node, second)) + "\n";
      }
      gang_.append("node-" + std::to_string(node) + ".jsonl", lines);
    }
    for (int rank = 0; rank < wish_.nodes * wish_.workers && wish_.has_events; ++rank) {
      gang_.start(rank, kStart, wish_.nodes * wish_.workers);
      std::string lines;
      for (int second = 1; second <= wish_.seconds; ++second) {
        lines += contract::to_json(step(rank, second)) + "\n";
      }
      gang_.append("rank-" + std::to_string(rank) + ".jsonl", lines);
    }
  }

  const MadeUpGang& gang() const { return gang_; }
  contract::RunDirectory run() const { return gang_.run(); }

  report::RunFacts facts(const report::JobFacts& job = {}) const {
    monitor::EventStore store(run());
    store.poll();
    return report::gather_facts(run(), store, job, kStart + 86400);
  }

  // The names of the rules that apply.
  std::vector<std::string> rules(const report::JobFacts& job = {}) const {
    std::vector<std::string> names;
    for (const report::Advice& advice : report::advise(facts(job))) {
      names.push_back(advice.rule);
    }
    return names;
  }

  void fail(const contract::FailureReport& report) const { fail(contract::to_json(report)); }
  void fail(const std::string& text) const { os::write_file(run().failure(), text); }

 private:
  template <typename Value>
  static Value of(const std::map<int, Value>& some, int number, Value otherwise) {
    const auto found = some.find(number);
    return found == some.end() ? otherwise : found->second;
  }

  contract::Event step(int rank, int second) const {
    return {.kind = "step",
            .time = kStart + second,
            .rank = rank,
            .fields = {{"step", int64_t{10} * second},
                       {"epoch", int64_t{1}},
                       {"loss", 2.0 / second},
                       {"learning_rate", 0.1},
                       {"samples_per_second", 640.0},
                       {"data_seconds", of(wish_.data_of, rank, wish_.data)},
                       {"compute_seconds", of(wish_.compute_of, rank, wish_.compute)},
                       {"exchange_seconds", wish_.exchange},
                       {"update_seconds", wish_.update}}};
  }

  contract::NodeSample sample(int node, int second) const {
    contract::NodeSample sample{.time = kStart + second,
                                .node = node,
                                .host = node == 0 ? "node-a" : "node-b",
                                .cores = wish_.cores * wish_.workers + wish_.foreign,
                                .granted = wish_.granted,
                                .memory_bytes = wish_.memory * wish_.workers,
                                .memory_limit_bytes = wish_.memory_limit,
                                .interfaces = {{.name = "ib0",
                                                .received_bytes = second * int64_t{1000000},
                                                .sent_bytes = second * int64_t{2000000}}}};
    for (int i = 0; i < wish_.gpus; ++i) {
      const int number = node * wish_.gpus + i;
      contract::GpuSample gpu{.index = i,
                              .uuid = "GPU-" + std::to_string(number),
                              .name = "NVIDIA A100",
                              .utilisation = of(wish_.utilisation_of, number, wish_.utilisation),
                              .memory_bytes = of(wish_.gpu_memory_of, number, wish_.gpu_memory),
                              .memory_total_bytes = 80 * kGiB,
                              .power_watts = 400,
                              .energy_joules = 5000 + 400 * second,
                              .temperature = 65,
                              .sm_clock_mhz = 1410,
                              .ecc_errors = 0};
      if (wish_.gpu_sample) {
        wish_.gpu_sample(gpu, number, second);
      }
      sample.gpus.push_back(gpu);
    }
    for (int i = 0; i < wish_.workers; ++i) {
      contract::WorkerSample worker{.rank = node * wish_.workers + i,
                                    .pid = 100 + i,
                                    .cores = wish_.cores,
                                    .memory_bytes = wish_.memory};
      if (i < wish_.gpus) {
        worker.gpus = {i};
      }
      sample.workers.push_back(worker);
    }
    sample.no_gpus = wish_.gpus == 0 ? "no NVIDIA driver" : "";
    return sample;
  }

  void write_state() const {
    contract::RunState state;
    state.run_id = "train-20240131-093000-beef";
    state.phase = wish_.phase;
    state.host = "node-a";
    state.launcher = {.machine = "elsewhere", .pid = 4711, .start_time = 1};
    state.attempt = wish_.attempt;
    for (int node = 0; node < wish_.nodes; ++node) {
      state.nodes.push_back({.name = node == 0 ? "node-a" : "node-b",
                             .workers = wish_.workers,
                             .interface = "",
                             .address = ""});
    }
    state.world_size = wish_.nodes * wish_.workers;
    state.started = kStart;
    state.updated = kStart + wish_.seconds;
    if (contract::is_end(wish_.phase)) {
      state.ended = kStart + wish_.seconds;
      state.exit_code = wish_.exit_code;
    }
    state.slurm_job = wish_.job;
    contract::write_state(run(), state);
    gang_.write_command({"python3", "train.py"});
  }

  Training wish_;
  MadeUpGang gang_;
};

}  // namespace lockstep::testing
