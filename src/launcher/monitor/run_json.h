// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/monitor/heat.h"
#include "launcher/monitor/series.h"
#include "launcher/monitor/snapshot.h"

// The JSON responses of the dashboard; docs/dashboard.md describes the fields.
namespace lockstep::monitor {

// The identity and state of a run.
struct RunName {
  std::string id;  // in addresses
  std::string name;
  std::string directory;
  std::string status;  // "running", "lost"
};

std::string runs_json(const std::vector<RunName>& runs);

// `series`: the names of the series of the run as a whole.
std::string snapshot_json(const RunName& run,
                          const Snapshot& snapshot,
                          const std::vector<std::string>& series);
std::string series_json(const std::string& name, const std::vector<Point>& points);
std::string marks_json(const std::vector<Mark>& marks);
std::string heat_json(const Heat& heat);

}  // namespace lockstep::monitor
