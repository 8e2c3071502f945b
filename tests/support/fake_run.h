// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/contract/event.h"
#include "common/contract/launch_plan.h"
#include "common/contract/node_sample.h"
#include "common/contract/run_directory.h"
#include "common/contract/run_state.h"
#include "common/os/files.h"

namespace lockstep::testing {

// A run directory with simulated files: two nodes with two workers each, GPUs on the first node
// only.
class FakeRun {
 public:
  static constexpr double kStart = 1706693400;

  FakeRun() { std::filesystem::create_directories(events()); }

  contract::RunDirectory run() const { return contract::RunDirectory(directory_.path() / "run"); }
  std::filesystem::path events() const { return run().root() / "events"; }

  void append(const std::string& file, const std::string& text) const {
    std::ofstream(events() / file, std::ios::app) << text;
  }
  void append(const contract::Event& event) const {
    append("rank-" + std::to_string(event.rank) + ".jsonl", contract::to_json(event) + "\n");
  }
  void append(const contract::NodeSample& sample) const {
    append("node-" + std::to_string(sample.node) + ".jsonl", contract::to_json(sample) + "\n");
  }

  void start(int rank, double time, int workers = 4) const {
    append({.kind = "start",
            .time = time,
            .rank = rank,
            .fields = {{"workers", int64_t{workers}},
                       {"strategy", "ddp"},
                       {"transport", "gloo"},
                       {"global_batch", int64_t{64}},
                       {"steps", int64_t{1000}}}});
  }

  // A step of 0.25 s, of which `compute` seconds are computation.
  void step(int rank, int64_t step, double compute = 0.15, double loss = 0) const {
    const double time = kStart + 10 + static_cast<double>(step) * 0.25;
    append({.kind = "step",
            .time = time,
            .rank = rank,
            .fields = {{"step", step},
                       {"epoch", int64_t{1}},
                       {"loss", loss > 0 ? loss : 2.0 / static_cast<double>(step)},
                       {"learning_rate", 0.1},
                       {"samples_per_second", 256.0},
                       {"data_seconds", 0.01},
                       {"compute_seconds", compute},
                       {"exchange_seconds", 0.24 - compute},
                       {"checkpoint_seconds", 0.0},
                       {"gradient_norm", 1.5}}});
  }

  static contract::GpuSample gpu(int index, double utilisation) {
    return {.index = index,
            .uuid = "GPU-" + std::to_string(index),
            .name = "NVIDIA H200",
            .bus_id = "00000000:0" + std::to_string(index) + ":00.0",
            .utilisation = utilisation,
            .memory_utilisation = 0.5,
            .memory_bytes = int64_t{48} << 30,
            .memory_total_bytes = int64_t{128} << 30,
            .power_watts = 512.5,
            .energy_joules = 1000.5,
            .temperature = 61,
            .sm_clock_mhz = 1980,
            .memory_clock_mhz = 3201,
            .pcie_received_bytes_per_second = 1e6,
            .pcie_sent_bytes_per_second = 2e6,
            .nvlink_received_bytes_per_second = 3e9,
            .nvlink_sent_bytes_per_second = 4e9,
            .ecc_errors = 0,
            .xid = 13};
  }

  void sample(int node, double time) const {
    contract::NodeSample sample{.time = time,
                                .node = node,
                                .host = node == 0 ? "node-a" : "node-b",
                                .cores = 6.5,
                                .granted = 8,
                                .memory_bytes = int64_t{3} << 30,
                                .memory_limit_bytes = int64_t{16} << 30};
    const auto bytes = static_cast<int64_t>((time - kStart) * 1e6);
    sample.interfaces = {{.name = "lo", .received_bytes = 7, .sent_bytes = 7},
                         {.name = "ib0", .received_bytes = bytes, .sent_bytes = 2 * bytes}};
    for (int i = 0; i < 2; ++i) {
      contract::WorkerSample worker{.rank = node * 2 + i,
                                    .pid = 100 + i,
                                    .cores = 3.0 + i,
                                    .memory_bytes = int64_t{1 + i} << 30,
                                    .read_bytes = 5,
                                    .written_bytes = 6};
      if (node == 0) {
        sample.gpus.push_back(gpu(i, i == 0 ? 0.81 : 0.97));
        worker.gpus = {i};
      }
      sample.workers.push_back(worker);
    }
    if (node != 0) {
      sample.no_gpus = "no driver of NVIDIA's";
    }
    append(sample);
  }

  // Writes plan.json.
  void write_command(const std::vector<std::string>& command) const {
    contract::LaunchPlan plan;
    plan.command = command;
    os::write_file(run().plan(), contract::to_json(plan));
  }

  void write_state() const {
    contract::RunState state;
    state.run_id = "train-20240131-093000-beef";
    state.phase = contract::RunPhase::Running;
    state.host = "node-a";
    state.launcher = {.machine = "elsewhere", .pid = 4711, .start_time = 1};
    state.attempt = 0;
    state.nodes = {{.name = "node-a", .workers = 2, .interface = "", .address = ""},
                   {.name = "node-b", .workers = 2, .interface = "", .address = ""}};
    state.world_size = 4;
    state.started = kStart;
    state.updated = kStart + 20;
    state.slurm_job = "4711";
    contract::write_state(run(), state);
    write_command({"python3", "train.py"});
  }

  // A complete run with all kinds of events. Rank 2 is a straggler.
  void write_all() const {
    write_state();
    for (int rank = 0; rank < 4; ++rank) {
      start(rank, kStart + 9);
    }
    append({.kind = "first_step",
            .time = kStart + 10,
            .rank = 0,
            .fields = {{"seconds_since_command", 4.5}}});
    for (int64_t at = 1; at <= 40; ++at) {
      for (int rank = 0; rank < 4; ++rank) {
        step(rank, at, rank == 2 ? 0.22 : 0.15);
      }
    }
    append({.kind = "evaluation",
            .time = kStart + 20,
            .rank = 0,
            .fields = {{"step", int64_t{40}},
                       {"loss", 0.0625},
                       {"accuracy", 0.98},
                       {"samples", int64_t{1000}},
                       {"top5", 0.999}}});
    append({.kind = "checkpoint",
            .time = kStart + 20.5,
            .rank = 0,
            .fields = {{"step", int64_t{40}},
                       {"directory", "checkpoints/step-00000040"},
                       {"seconds", 0.125}}});
    for (int node = 0; node < 2; ++node) {
      sample(node, kStart + 19);
      sample(node, kStart + 20);
    }
    append("output-0.jsonl",
           R"({"event":"metric","time":1706693420,"rank":0,"name":"perplexity","value":12.5})"
           "\n");
  }

 private:
  os::TemporaryDirectory directory_{"fake-run"};
};

}  // namespace lockstep::testing
