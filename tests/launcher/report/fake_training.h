// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/contract/failure_report.h"
#include "launcher/report/advice.h"
#include "launcher/report/run_facts.h"
#include "support/fake_run.h"

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
class FakeTraining {
 public:
  static constexpr double kStart = FakeRun::kStart;

  explicit FakeTraining(Training shape = {}) : shape_(std::move(shape)) {
    write_state();
    for (int node = 0; node < shape_.nodes && shape_.has_samples; ++node) {
      std::string lines;
      for (int second = 0; second <= shape_.seconds; ++second) {
        lines += contract::to_json(sample(node, second)) + "\n";
      }
      fake_run_.append("node-" + std::to_string(node) + ".jsonl", lines);
    }
    for (int rank = 0; rank < shape_.nodes * shape_.workers && shape_.has_events; ++rank) {
      fake_run_.start(rank, kStart, shape_.nodes * shape_.workers);
      std::string lines;
      for (int second = 1; second <= shape_.seconds; ++second) {
        lines += contract::to_json(step(rank, second)) + "\n";
      }
      fake_run_.append("rank-" + std::to_string(rank) + ".jsonl", lines);
    }
  }

  const FakeRun& fake_run() const { return fake_run_; }
  contract::RunDirectory run() const { return fake_run_.run(); }

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
  static Value of(const std::map<int, Value>& some, int number, Value fallback) {
    const auto found = some.find(number);
    return found == some.end() ? fallback : found->second;
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
                       {"data_seconds", of(shape_.data_of, rank, shape_.data)},
                       {"compute_seconds", of(shape_.compute_of, rank, shape_.compute)},
                       {"exchange_seconds", shape_.exchange},
                       {"update_seconds", shape_.update}}};
  }

  contract::NodeSample sample(int node, int second) const {
    contract::NodeSample sample{.time = kStart + second,
                                .node = node,
                                .host = node == 0 ? "node-a" : "node-b",
                                .cores = shape_.cores * shape_.workers + shape_.foreign,
                                .granted = shape_.granted,
                                .memory_bytes = shape_.memory * shape_.workers,
                                .memory_limit_bytes = shape_.memory_limit,
                                .interfaces = {{.name = "ib0",
                                                .received_bytes = second * int64_t{1000000},
                                                .sent_bytes = second * int64_t{2000000}}}};
    for (int i = 0; i < shape_.gpus; ++i) {
      const int number = node * shape_.gpus + i;
      contract::GpuSample gpu{.index = i,
                              .uuid = "GPU-" + std::to_string(number),
                              .name = "NVIDIA A100",
                              .utilisation = of(shape_.utilisation_of, number, shape_.utilisation),
                              .memory_bytes = of(shape_.gpu_memory_of, number, shape_.gpu_memory),
                              .memory_total_bytes = 80 * kGiB,
                              .power_watts = 400,
                              .energy_joules = 5000 + 400 * second,
                              .temperature = 65,
                              .sm_clock_mhz = 1410,
                              .ecc_errors = 0};
      if (shape_.gpu_sample) {
        shape_.gpu_sample(gpu, number, second);
      }
      sample.gpus.push_back(gpu);
    }
    for (int i = 0; i < shape_.workers; ++i) {
      contract::WorkerSample worker{.rank = node * shape_.workers + i,
                                    .pid = 100 + i,
                                    .cores = shape_.cores,
                                    .memory_bytes = shape_.memory};
      if (i < shape_.gpus) {
        worker.gpus = {i};
      }
      sample.workers.push_back(worker);
    }
    sample.no_gpus = shape_.gpus == 0 ? "no NVIDIA driver" : "";
    return sample;
  }

  void write_state() const {
    contract::RunState state;
    state.run_id = "train-20240131-093000-beef";
    state.phase = shape_.phase;
    state.host = "node-a";
    state.launcher = {.machine = "elsewhere", .pid = 4711, .start_time = 1};
    state.attempt = shape_.attempt;
    for (int node = 0; node < shape_.nodes; ++node) {
      state.nodes.push_back({.name = node == 0 ? "node-a" : "node-b",
                             .workers = shape_.workers,
                             .interface = "",
                             .address = ""});
    }
    state.world_size = shape_.nodes * shape_.workers;
    state.started = kStart;
    state.updated = kStart + shape_.seconds;
    if (contract::is_end(shape_.phase)) {
      state.ended = kStart + shape_.seconds;
      state.exit_code = shape_.exit_code;
    }
    state.slurm_job = shape_.job;
    contract::write_state(run(), state);
    fake_run_.write_command({"python3", "train.py"});
  }

  Training shape_;
  FakeRun fake_run_;
};

}  // namespace lockstep::testing
