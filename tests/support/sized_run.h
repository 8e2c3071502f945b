// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "common/contract/event.h"
#include "common/contract/launch_plan.h"
#include "common/contract/node_sample.h"
#include "common/contract/run_directory.h"
#include "common/contract/run_state.h"
#include "common/os/files.h"

namespace lockstep::testing {

// Writes the files of a simulated run of a given size and speed, with one worker per GPU.
struct SizedRun {
  std::string strategy = "ddp";
  int workers = 1;
  int nodes = 1;
  int64_t global_batch = 64;
  int64_t gradient_bytes = 0;  // 0: not reported
  double step_seconds = 0.25;
  double first_steps_seconds = 2;  // per step, for the first two steps
  int64_t steps = 40;
  std::optional<double> exchange_seconds = {};  // per step
  std::optional<double> watts = {};             // per GPU
  bool has_energy = true;                       // false: power only
  bool has_events = true;                       // false: a program that does not write events

  static constexpr double kStart = 1706693400;

  double time_of(int64_t step) const {
    return kStart + first_steps_seconds * static_cast<double>(std::min<int64_t>(step, 2)) +
           step_seconds * static_cast<double>(std::max<int64_t>(step - 2, 0));
  }

  void write(const std::filesystem::path& directory) const {
    const contract::RunDirectory run(directory);
    std::filesystem::create_directories(run.events(0).parent_path());
    contract::LaunchPlan plan;
    plan.command = {"./train", "-s", strategy};
    os::write_file(run.plan(), contract::to_json(plan));
    contract::RunState state;
    state.run_id = directory.filename().string();
    state.phase = contract::RunPhase::Done;
    state.world_size = workers;
    state.started = kStart;
    state.updated = kStart;
    for (int node = 0; node < nodes; ++node) {
      state.nodes.push_back({.name = "n" + std::to_string(node),
                             .workers = workers / nodes,
                             .interface = "",
                             .address = ""});
    }
    contract::write_state(run, state);
    for (int rank = 0; rank < workers && has_events; ++rank) {
      write_rank(run, rank);
    }
    if (watts) {
      for (int node = 0; node < nodes; ++node) {
        write_samples(run, node);
      }
    }
  }

 private:
  void write_rank(const contract::RunDirectory& run, int rank) const {
    std::ofstream file(run.events(rank));
    contract::Event start{.kind = "start",
                          .time = kStart,
                          .rank = rank,
                          .fields = {{"workers", int64_t{workers}},
                                     {"strategy", strategy},
                                     {"transport", "gloo"},
                                     {"global_batch", global_batch},
                                     {"steps", steps}}};
    if (gradient_bytes > 0) {
      start.fields.emplace_back("gradient_bytes", gradient_bytes);
    }
    file << contract::to_json(start) << "\n";
    for (int64_t step = 1; step <= steps; ++step) {
      contract::Event event{.kind = "step",
                            .time = time_of(step),
                            .rank = rank,
                            .fields = {{"step", step}, {"loss", 1.0}}};
      if (exchange_seconds) {
        event.fields.emplace_back("exchange_seconds", *exchange_seconds);
      }
      file << contract::to_json(event) << "\n";
    }
  }

  void write_samples(const contract::RunDirectory& run, int node) const {
    std::ofstream file(run.node_samples(node));
    const int here = workers / nodes;
    for (double time = kStart; time <= time_of(steps) + 1; time += 1) {
      contract::NodeSample sample{.time = time, .node = node, .host = "n" + std::to_string(node)};
      for (int i = 0; i <= here; ++i) {  // the node has one more GPU than the run uses
        sample.gpus.push_back({.index = i, .power_watts = *watts});
        if (has_energy) {
          sample.gpus.back().energy_joules = 1e6 + *watts * (time - kStart);
        }
      }
      for (int i = 0; i < here; ++i) {
        sample.workers.push_back({.rank = node * here + i, .gpus = {i}});
      }
      file << contract::to_json(sample) << "\n";
    }
  }
};

}  // namespace lockstep::testing
