// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/contract/event.h"
#include "common/contract/run_directory.h"

namespace lockstep {

// Returns the step events of a rank from a run directory.
inline std::vector<contract::Event> step_events(const std::filesystem::path& run, int rank) {
  std::vector<contract::Event> steps;
  std::ifstream lines(contract::RunDirectory(run).events(rank));
  for (std::string line; std::getline(lines, line);) {
    contract::Event event = contract::parse_event(line);
    if (event.kind == "step") {
      steps.push_back(std::move(event));
    }
  }
  return steps;
}

}  // namespace lockstep
