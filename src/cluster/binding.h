// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "cluster/topology.h"

// Which processors each worker of a node may use.
namespace lockstep::cluster {

// The processors that this process was granted, shared out: one list per worker, upwards.
// `gpu_of_worker` holds the number of each worker's GPU among those that this process may use, in
// the order of the PCI bus; it may be shorter, and negative numbers mean none. Loads the machine's
// topology, which takes milliseconds.
std::vector<std::vector<int>> share_cores(int workers, const std::vector<int>& gpu_of_worker);

// The same from what is known. `wishes` has one entry per worker: the NUMA node that its GPU is at.
//
// Shares are disjoint, whole cores, and equal but for one core; a core is split where there are
// fewer cores than workers. A worker gets the node it wishes while there is room for its whole
// share, else what is nearest by number. Cores that cannot be dealt out evenly stay unused only
// where they would push a worker from its node. With fewer processors than workers, all get all.
std::vector<std::vector<int>> split_cpus(const std::vector<Cpu>& cpus,
                                         const std::vector<std::optional<int>>& wishes);

}  // namespace lockstep::cluster
