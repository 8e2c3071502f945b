// SPDX-License-Identifier: Apache-2.0
//
// Used in builds without hwloc.
#include "common/cluster/topology.h"

namespace lockstep::cluster {

std::vector<Cpu> locate_cpus(const std::vector<int>& numbers) {
  std::vector<Cpu> cpus;
  cpus.reserve(numbers.size());
  for (const int number : numbers) {
    cpus.push_back({.number = number, .core = number, .numa_node = 0});
  }
  return cpus;
}

}  // namespace lockstep::cluster
