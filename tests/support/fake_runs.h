// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "common/contract/launch_plan.h"
#include "common/contract/run_directory.h"
#include "common/contract/run_state.h"
#include "common/os/files.h"

namespace lockstep::testing {

// A directory with simulated runs.
class FakeRuns {
 public:
  static constexpr double kNow = 1706693460;

  // A run of two nodes with four workers each, on another machine, started a minute ago.
  static contract::RunState state(const std::string& run_id) {
    contract::RunState state;
    state.run_id = run_id;
    state.phase = contract::RunPhase::Running;
    state.host = "node-a";
    state.launcher = {.machine = "elsewhere", .pid = 4711, .start_time = 1};
    state.nodes = {{.name = "node-a", .workers = 4, .interface = "ib0", .address = "10.0.0.1"},
                   {.name = "node-b", .workers = 4, .interface = "ib0", .address = "10.0.0.2"}};
    state.world_size = 8;
    state.grace_seconds = 30;
    state.started = kNow - 60;
    state.updated = kNow - 3;
    return state;
  }

  contract::RunDirectory add(const std::string& name) const {
    const contract::RunDirectory run(here() / "runs" / name);
    os::make_directories(run.root());
    os::write_file(run.plan(), contract::to_json(contract::LaunchPlan()));
    return run;
  }

  contract::RunDirectory add(const std::string& name, const contract::RunState& state) const {
    const contract::RunDirectory run = add(name);
    contract::write_state(run, state);
    return run;
  }

  static void write_log(const contract::RunDirectory& run,
                        int attempt,
                        int rank,
                        const std::string& text) {
    os::make_directories(run.log(attempt, rank).parent_path());
    os::write_file(run.log(attempt, rank), text);
  }

  const std::filesystem::path& here() const { return directory_.path(); }

 private:
  os::TemporaryDirectory directory_{"fake-runs"};
};

}  // namespace lockstep::testing
