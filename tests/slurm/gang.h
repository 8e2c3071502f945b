// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "slurm/lab.h"

namespace lockstep::testing {

// A program whose workers meet at MASTER_ADDR:MASTER_PORT, whereupon each writes what it was told
// to fact-RANK.json. Its path.
std::string write_meet(const Lab& lab);

// Copies the launcher to where the user finds it, bin/lockstep in the shared home; its path.
std::string copy_launcher(const Lab& lab);

// What a worker of meet.py was told.
nlohmann::json fact_of(const Lab& lab, int rank);

// That a gang of meet.py has met: these nodes in the order of their ranks, each with so many
// workers. Those of several nodes met on the network fab0.
void expect_gang(const Lab& lab, const std::vector<std::pair<std::string, int>>& nodes);

// The loss on the test data of a run of the library's, by the step at which it was judged.
std::map<int, double> losses_of(const std::filesystem::path& run);

// failure.json of the run in `run`.
nlohmann::json failure_of(const Lab& lab, const std::string& run = "run");

// A test of the launcher, which lies in the shared home of the lab.
class LaunchOnLab : public OnLab {
 protected:
  void SetUp() override;

  // The launcher's path on every node.
  std::string lockstep() { return (lab().home() / "bin/lockstep").string(); }

  // Writes meet.py; its path.
  std::string meet() { return write_meet(lab()); }
};

}  // namespace lockstep::testing
