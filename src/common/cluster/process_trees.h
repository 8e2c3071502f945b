// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/os/process_table.h"

namespace lockstep::cluster {

// Resources used by a process and all its descendants.
struct TreeUse {
  double cpu_seconds = 0;
  int64_t memory_bytes = 0;  // resident; shared pages count once
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  int processes = 0;  // running processes
};

// Tracks the process trees of workers from sample to sample. A process belongs to the tree of its
// parent, or to that of its process group leader, or to its previous tree: it stays there after its
// parent has ended. Not thread-safe.
class ProcessTrees {
 public:
  explicit ProcessTrees(std::filesystem::path proc = "/proc");

  // In the order of `roots`. The totals include processes that have ended, except for their memory.
  std::vector<TreeUse> look(std::span<const int> roots);

 private:
  struct Member {
    os::ProcessReading reading;
    int root = 0;
    os::DiskBytes disk;
    double own_share = 1;  // proportional share of its resident memory, when last measured
    int64_t next_share = 0;
  };
  using Members = std::map<int, Member>;
  using Readings = std::map<int, os::ProcessReading>;

  Readings read_all();
  std::optional<int> find_root(std::span<const int> roots,
                               const os::ProcessReading& reading,
                               const Readings& readings) const;
  const Member* find_before(const os::ProcessReading& reading) const;
  Members find_members(std::span<const int> roots, const Readings& readings) const;
  int64_t measure_memory(Member& member, bool is_alone) const;
  TreeUse add_lost(int root, const TreeUse& use);

  std::filesystem::path proc_;
  int64_t looks_ = 0;
  std::set<int> strangers_;  // not part of any tree; not read in every sample
  Members members_;
  std::vector<int> roots_;
  std::map<int, TreeUse> seen_;  // by root, in the previous sample
  std::map<int, TreeUse> lost_;  // by root: use of ended processes that no parent waited for
};

}  // namespace lockstep::cluster
