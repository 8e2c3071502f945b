// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace lockstep::cluster {

// A logical processor and where it sits.
struct Cpu {
  int number = 0;
  int core = 0;       // the same for the hyperthreads of one core
  int numa_node = 0;  // the kernel's number

  bool operator==(const Cpu&) const = default;
};

// Where these processors sit, in the order of `numbers`. Takes milliseconds, on large machines tens
// of them, so ask only where it matters. Built without hwloc, every processor is a core of its own.
std::vector<Cpu> locate_cpus(const std::vector<int>& numbers);

}  // namespace lockstep::cluster
