// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/binding.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <tuple>

#include "common/cluster/gpus.h"
#include "common/os/processors.h"

namespace lockstep::cluster {
namespace {

using PreferredNodes = std::vector<std::optional<int>>;

// The unit of distribution: a core with its hyperthreads, or one hyperthread.
struct Unit {
  int numa_node = 0;
  std::vector<int> cpus;
};

enum class Grain { Core, Cpu };

// Sorts by NUMA node, core and number, so that neighbours in the list share hardware. Cores are
// numbered per machine by hwloc; comparing the NUMA node in addition keeps the units correct if a
// core number repeats.
std::vector<Unit> make_units(std::vector<Cpu> cpus, Grain grain) {
  std::sort(cpus.begin(), cpus.end(), [](const Cpu& one, const Cpu& other) {
    return std::tie(one.numa_node, one.core, one.number) <
           std::tie(other.numa_node, other.core, other.number);
  });
  std::vector<Unit> units;
  for (size_t i = 0; i < cpus.size(); ++i) {
    const bool is_same_core =
        i > 0 && cpus[i].core == cpus[i - 1].core && cpus[i].numa_node == cpus[i - 1].numa_node;
    if (grain == Grain::Cpu || !is_same_core) {
      units.push_back({cpus[i].numa_node, {}});
    }
    units.back().cpus.push_back(cpus[i].number);
  }
  return units;
}

// One distribution of the units over the workers.
class Deal {
 public:
  Deal(const std::vector<Unit>& units, const PreferredNodes& preferred)
      : units_(units), preferred_(preferred), is_taken_(units.size()), shares_(preferred.size()) {}

  // `sizes` has the number of units of each worker. Two passes: workers whose NUMA node has enough
  // free units choose first. Otherwise a worker without a preference could take the units that a
  // later worker needs next to its GPU.
  void make(const std::vector<size_t>& sizes) {
    std::vector<size_t> left_over;
    for (size_t worker = 0; worker < preferred_.size(); ++worker) {
      const std::vector<size_t> near = free_units(worker, 0);
      if (preferred_[worker] && near.size() >= sizes[worker]) {
        take(worker, near, sizes[worker]);
      } else {
        left_over.push_back(worker);
      }
    }
    for (const size_t worker : left_over) {
      take(worker, free_units(worker, std::nullopt), sizes[worker]);
    }
  }

  // Number of units that are not on the preferred NUMA node of their worker.
  size_t strangers() const {
    size_t count = 0;
    for (size_t worker = 0; worker < preferred_.size(); ++worker) {
      for (const size_t unit : shares_[worker]) {
        count +=
            preferred_[worker].value_or(units_[unit].numa_node) == units_[unit].numa_node ? 0 : 1;
      }
    }
    return count;
  }

  std::vector<std::vector<int>> cpus() const {
    std::vector<std::vector<int>> all;
    for (const std::vector<size_t>& share : shares_) {
      std::vector<int> numbers;
      for (const size_t unit : share) {
        numbers.insert(numbers.end(), units_[unit].cpus.begin(), units_[unit].cpus.end());
      }
      std::sort(numbers.begin(), numbers.end());
      all.push_back(std::move(numbers));
    }
    return all;
  }

 private:
  // NUMA nodes with neighbouring numbers are usually in the same package. A worker without a
  // preference is at distance 0 from every unit, so that it gets the lowest free ones.
  int distance(size_t worker, size_t unit) const {
    return std::abs(preferred_[worker].value_or(units_[unit].numa_node) - units_[unit].numa_node);
  }

  // Nearest first, at a distance of at most `maximum`.
  std::vector<size_t> free_units(size_t worker, std::optional<int> maximum) const {
    std::vector<size_t> free;
    for (size_t unit = 0; unit < units_.size(); ++unit) {
      if (!is_taken_[unit] && (!maximum || distance(worker, unit) <= *maximum)) {
        free.push_back(unit);
      }
    }
    std::stable_sort(free.begin(), free.end(), [&](size_t one, size_t other) {
      return distance(worker, one) < distance(worker, other);
    });
    return free;
  }

  void take(size_t worker, const std::vector<size_t>& from, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      is_taken_[from[i]] = true;
      shares_[worker].push_back(from[i]);
    }
  }

  const std::vector<Unit>& units_;
  const PreferredNodes& preferred_;
  std::vector<bool> is_taken_;
  std::vector<std::vector<size_t>> shares_;
};

// Compares two distributions: one that uses all units, with one more for the first workers, and one
// with equal shares and some units unused. The larger one wins unless it moves more units away from
// the GPU of their worker.
std::vector<std::vector<int>> deal_out(const std::vector<Unit>& units,
                                       const PreferredNodes& preferred) {
  std::vector<size_t> sizes(preferred.size(), units.size() / preferred.size());
  Deal equal(units, preferred);
  equal.make(sizes);
  std::for_each_n(sizes.begin(), units.size() % preferred.size(), [](size_t& size) { ++size; });
  Deal complete(units, preferred);
  complete.make(sizes);
  return complete.strangers() <= equal.strangers() ? complete.cpus() : equal.cpus();
}

}  // namespace

std::vector<std::vector<int>> split_cpus(const std::vector<Cpu>& cpus,
                                         const PreferredNodes& preferred) {
  if (preferred.empty()) {
    return {};
  }
  for (const Grain grain : {Grain::Core, Grain::Cpu}) {
    const std::vector<Unit> units = make_units(cpus, grain);
    if (units.size() >= preferred.size()) {
      return deal_out(units, preferred);
    }
  }
  std::vector<int> all;
  std::transform(
      cpus.begin(), cpus.end(), std::back_inserter(all), [](const Cpu& cpu) { return cpu.number; });
  std::sort(all.begin(), all.end());
  std::vector<std::vector<int>> shares(preferred.size(), all);
  return shares;
}

std::vector<std::vector<int>> share_cores(int workers, const std::vector<int>& gpu_of_worker) {
  PreferredNodes preferred(static_cast<size_t>(std::max(workers, 0)));
  const std::vector<std::optional<int>> nodes =
      gpu_of_worker.empty() ? PreferredNodes() : gpu_numa_nodes();
  for (size_t worker = 0; worker < std::min(preferred.size(), gpu_of_worker.size()); ++worker) {
    const int gpu = gpu_of_worker[worker];
    if (gpu >= 0 && static_cast<size_t>(gpu) < nodes.size()) {
      preferred[worker] = nodes[static_cast<size_t>(gpu)];
    }
  }
  return split_cpus(locate_cpus(os::usable_processor_numbers()), preferred);
}

}  // namespace lockstep::cluster
