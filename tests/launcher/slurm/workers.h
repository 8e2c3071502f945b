// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "launcher/slurm/lab.h"

namespace lockstep::testing {

// Writes a program whose workers connect to MASTER_ADDR:MASTER_PORT. Each then writes its variables
// to fact-RANK.json. Returns its path.
std::string write_meet(const Lab& lab);

// Copies the launcher to bin/lockstep in the shared home. Returns its path.
std::string copy_launcher(const Lab& lab);

// Variables of a worker of meet.py.
nlohmann::json fact_of(const Lab& lab, int rank);

// Checks that the workers of meet.py have connected: these nodes in the order of their ranks, with
// this number of workers each. Several nodes must have used the network fab0.
void expect_workers(const Lab& lab, const std::vector<std::pair<std::string, int>>& nodes);

// Test loss of a training run by step.
std::map<int, double> losses_of(const std::filesystem::path& run);

// failure.json of the run in `run`.
nlohmann::json failure_of(const Lab& lab, const std::string& run = "run");

// A test of the launcher, which is stored in the shared home of the lab.
class LaunchOnLab : public OnLab {
 protected:
  void SetUp() override;

  // Path of the launcher on every node.
  std::string lockstep() { return (lab().home() / "bin/lockstep").string(); }

  // Writes meet.py. Returns its path.
  std::string meet() { return write_meet(lab()); }
};

}  // namespace lockstep::testing
