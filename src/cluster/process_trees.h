// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "os/process_table.h"

namespace lockstep::cluster {

// What a process and all that it has started, and they in turn, have used.
struct TreeUse {
  double cpu_seconds = 0;
  int64_t memory_bytes = 0;  // resident; what several of them share counts once
  int64_t read_bytes = 0;
  int64_t written_bytes = 0;
  int processes = 0;  // that run
};

// Looks after the trees of some processes of ours, from one look to the next. A process belongs to
// the tree of its parent, or to that of the leader of its group, or where it was before; it stays
// when its parent has gone. One thread.
class ProcessTrees {
 public:
  explicit ProcessTrees(std::filesystem::path proc = "/proc");

  // In the order of `roots`. Those that have ended in the meantime keep what they had used, but
  // their memory.
  std::vector<TreeUse> look(std::span<const int> roots);

 private:
  struct Member {
    os::ProcessReading reading;
    int root = 0;
    os::DiskBytes disk;
    double own_share = 1;  // of its resident memory, when that was last looked at
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
  std::set<int> strangers_;  // none of ours; not read each time
  Members members_;
  std::vector<int> roots_;
  std::map<int, TreeUse> seen_;  // by root, at the last look
  std::map<int, TreeUse> lost_;  // by root: of those that have ended and whose end nobody counted
};

}  // namespace lockstep::cluster
