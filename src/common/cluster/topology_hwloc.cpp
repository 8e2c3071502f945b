// SPDX-License-Identifier: Apache-2.0
#include <hwloc.h>
#include <map>
#include <memory>

#include "common/cluster/topology.h"

namespace lockstep::cluster {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

// Cores and memory only; null if hwloc fails.
Topology load_topology() {
  hwloc_topology_t handle = nullptr;
  if (hwloc_topology_init(&handle) != 0) {
    return nullptr;
  }
  Topology topology(handle);
  hwloc_topology_set_all_types_filter(handle, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(handle, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  // Without packages and groups, hwloc attaches all memory to the machine.
  hwloc_topology_set_type_filter(handle, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(handle, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  // The x86 component visits every processor to examine its caches, which are not needed here.
  hwloc_topology_set_components(handle, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  return hwloc_topology_load(handle) == 0 ? std::move(topology) : nullptr;
}

// Maps each processor to the number of the object of this kind that contains it.
template <typename Number>
std::map<int, int> map_cpus(hwloc_topology_t topology, hwloc_obj_type_t kind, Number number_of) {
  std::map<int, int> numbers;
  for (hwloc_obj_t object = hwloc_get_next_obj_by_type(topology, kind, nullptr); object != nullptr;
       object = hwloc_get_next_obj_by_type(topology, kind, object)) {
    for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(object->cpuset, cpu)) {
      numbers.emplace(cpu, static_cast<int>(number_of(object)));
    }
  }
  return numbers;
}

}  // namespace

// logical_index of a core is unique in the machine, while its os_index repeats in each package. The
// os_index of a NUMA node is the number that sysfs reports for a GPU.
std::vector<Cpu> locate_cpus(const std::vector<int>& numbers) {
  std::map<int, int> cores;
  std::map<int, int> numa_nodes;
  if (const Topology topology = load_topology()) {
    cores = map_cpus(
        topology.get(), HWLOC_OBJ_CORE, [](hwloc_obj_t core) { return core->logical_index; });
    numa_nodes = map_cpus(
        topology.get(), HWLOC_OBJ_NUMANODE, [](hwloc_obj_t node) { return node->os_index; });
  }
  // A processor that hwloc does not know becomes a core of its own with an unused number.
  constexpr int kUnknown = 1 << 24;
  std::vector<Cpu> cpus;
  cpus.reserve(numbers.size());
  for (const int number : numbers) {
    const auto core = cores.find(number);
    const auto numa_node = numa_nodes.find(number);
    cpus.push_back({.number = number,
                    .core = core == cores.end() ? kUnknown + number : core->second,
                    .numa_node = numa_node == numa_nodes.end() ? 0 : numa_node->second});
  }
  return cpus;
}

}  // namespace lockstep::cluster
