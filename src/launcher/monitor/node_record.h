// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/contract/node_sample.h"
#include "launcher/monitor/series_table.h"
#include "launcher/monitor/snapshot.h"

namespace lockstep::monitor {

// The samples of one agent about its node.
class NodeRecord {
 public:
  NodeRecord(int node, SeriesTable& table) : node_(node), table_(table) {}

  void add(contract::NodeSample sample);

  NodeView view() const;

 private:
  void add_gpu(const contract::GpuSample& gpu, double time);
  Series& series(const std::string& name);

  int node_;
  SeriesTable& table_;
  NodeView view_;
  HostTally tally_;
};

}  // namespace lockstep::monitor
