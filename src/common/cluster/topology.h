// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace lockstep::cluster {

// A logical processor and its location.
struct Cpu {
  int number = 0;
  int core = 0;       // equal for the hyperthreads of a core
  int numa_node = 0;  // number in the kernel

  bool operator==(const Cpu&) const = default;
};

// The locations of these processors, in the order of `numbers`. Takes milliseconds, on large
// machines tens of milliseconds. Without hwloc, every processor counts as a core of its own.
std::vector<Cpu> locate_cpus(const std::vector<int>& numbers);

}  // namespace lockstep::cluster
