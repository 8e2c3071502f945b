// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "common/cluster/topology.h"

// Assigns processors to the workers of a node.
namespace lockstep::cluster {

// Distributes the processors of this process: one ascending list per worker. `gpu_of_worker`
// contains the index of each worker's GPU among the GPUs of this process, in PCI bus order. It can
// be shorter; a negative number means no GPU. Loads the topology of the machine, which takes
// milliseconds.
std::vector<std::vector<int>> share_cores(int workers, const std::vector<int>& gpu_of_worker);

// As above, from known values. `preferred` has one entry per worker: the NUMA node of its GPU.
//
// Shares are disjoint, consist of whole cores, and differ by at most one core. Cores are split only
// if there are fewer cores than workers. A worker gets cores on its preferred NUMA node if they
// suffice for its whole share, else the nearest by number. Cores remain unused only if an uneven
// distribution would move a worker off its NUMA node. With fewer processors than workers, each
// worker gets all processors.
std::vector<std::vector<int>> split_cpus(const std::vector<Cpu>& cpus,
                                         const std::vector<std::optional<int>>& preferred);

}  // namespace lockstep::cluster
