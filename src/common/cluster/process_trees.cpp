// SPDX-License-Identifier: Apache-2.0
//
// A worker can start data loaders, which can outlive it or detach from it. The kernel reports only
// the current parent of a process, so membership is remembered from sample to sample:
//
//   root (worker)            a process belongs to a root if, in this order,
//   +-- data loader            an ancestor is the root, or
//   |   +-- decoder            the root leads its process group, or
//   +-- (orphan) ...           it belonged to that root in the previous sample
//
// CPU time and bytes of a process that has ended are added to its parent by the kernel if the
// parent waits for it, and are lost otherwise; add_lost() keeps the totals from decreasing.
#include "common/cluster/process_trees.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::cluster {
namespace {

// Most processes of a node do not belong to the run and are not read in every sample. Since the
// kernel reuses process numbers, all are read again at this interval (in samples).
constexpr int64_t kReadAllAgain = 30;
// The proportional share of memory requires a walk over all pages: only at this interval, and never
// in a large process.
constexpr int64_t kShareAgain = 10;
constexpr int64_t kMaxWalkedBytes = int64_t{16} << 30;

}  // namespace

ProcessTrees::ProcessTrees(std::filesystem::path proc) : proc_(std::move(proc)) {}

// A node with thousands of processes of other users costs one directory listing per sample, not
// thousands of files. A number that was reused by a new process of the run is noticed after at most
// kReadAllAgain samples.
std::map<int, os::ProcessReading> ProcessTrees::read_all() {
  if (looks_ % kReadAllAgain == 0) {
    strangers_.clear();
  }
  std::map<int, os::ProcessReading> readings;
  std::set<int> strangers;
  for (const int pid : os::list_processes(proc_)) {
    if (strangers_.contains(pid)) {
      strangers.insert(pid);
    } else if (const auto reading = os::find_process(pid, proc_)) {
      readings.emplace(pid, *reading);
    }
  }
  strangers_ = std::move(strangers);
  return readings;
}

// The root of the tree to which a process belongs or belonged, or of its process group.
std::optional<int> ProcessTrees::find_root(std::span<const int> roots,
                                           const os::ProcessReading& reading,
                                           const Readings& readings) const {
  const auto is_root = [&roots](int pid) {
    return std::find(roots.begin(), roots.end(), pid) != roots.end();
  };
  const os::ProcessReading* one = &reading;
  for (int depth = 0; depth < 100; ++depth) {  // no cycle unless a number is reused
    if (is_root(one->pid)) {
      return one->pid;
    }
    const auto parent = readings.find(one->parent);
    if (parent == readings.end()) {
      break;
    }
    one = &parent->second;
  }
  if (is_root(reading.group)) {
    return reading.group;
  }
  const Member* before = find_before(reading);
  return before != nullptr && is_root(before->root) ? std::optional(before->root) : std::nullopt;
}

// The same process in the previous sample; null if it was not there.
const ProcessTrees::Member* ProcessTrees::find_before(const os::ProcessReading& reading) const {
  const auto before = members_.find(reading.pid);
  const bool is_same = before != members_.end() && before->second.reading.began == reading.began;
  return is_same ? &before->second : nullptr;
}

ProcessTrees::Members ProcessTrees::find_members(std::span<const int> roots,
                                                 const Readings& readings) const {
  Members members;
  for (const auto& [pid, reading] : readings) {
    if (const auto root = find_root(roots, reading, readings)) {
      const Member* before = find_before(reading);
      Member member = before != nullptr ? *before : Member{};
      member.reading = reading;
      member.root = *root;
      members.emplace(pid, member);
    }
  }
  return members;
}

// Resident memory counts a shared page once for each process: data loaders that share the memory of
// their parent would count several times. The ratio of both values changes slowly, so it is
// measured rarely and applied to the current resident size. A process alone in its tree needs no
// ratio.
int64_t ProcessTrees::measure_memory(Member& member, bool is_alone) const {
  const int64_t resident = member.reading.resident_bytes;
  if (is_alone || resident <= 0 || resident > kMaxWalkedBytes) {
    return resident;
  }
  if (looks_ >= member.next_share) {
    member.next_share = looks_ + kShareAgain;
    const auto share = os::find_proportional_bytes(member.reading.pid, proc_);
    member.own_share =
        share ? std::min(1.0, static_cast<double>(*share) / static_cast<double>(resident)) : 1;
  }
  return static_cast<int64_t>(member.own_share * static_cast<double>(resident));
}

// The kernel credits the use of a dead orphan to no other process, so it is kept here. A decrease
// since the previous sample is the use of processes that disappeared without being waited for.
TreeUse ProcessTrees::add_lost(int root, const TreeUse& use) {
  TreeUse& lost = lost_[root];
  TreeUse& seen = seen_[root];
  lost.cpu_seconds += std::max(0.0, seen.cpu_seconds - use.cpu_seconds);
  lost.read_bytes += std::max<int64_t>(0, seen.read_bytes - use.read_bytes);
  lost.written_bytes += std::max<int64_t>(0, seen.written_bytes - use.written_bytes);
  seen = use;
  TreeUse all = use;
  all.cpu_seconds += lost.cpu_seconds;
  all.read_bytes += lost.read_bytes;
  all.written_bytes += lost.written_bytes;
  return all;
}

// The processes are counted in a first pass, because measure_memory() must know whether a process
// is alone in its tree.
std::vector<TreeUse> ProcessTrees::look(std::span<const int> roots) {
  if (!std::equal(roots.begin(), roots.end(), roots_.begin(), roots_.end())) {
    roots_.assign(roots.begin(), roots.end());
    strangers_.clear();
    const auto is_gone = [this](const auto& entry) {
      return std::find(roots_.begin(), roots_.end(), entry.first) == roots_.end();
    };
    std::erase_if(seen_, is_gone);
    std::erase_if(lost_, is_gone);
  }
  const std::map<int, os::ProcessReading> readings = read_all();
  members_ = find_members(roots, readings);
  for (const auto& [pid, reading] : readings) {
    if (!members_.contains(pid)) {
      strangers_.insert(pid);
    }
  }
  std::map<int, TreeUse> uses;
  for (auto& [pid, member] : members_) {
    uses[member.root].processes += member.reading.has_ended ? 0 : 1;
  }
  for (auto& [pid, member] : members_) {
    TreeUse& use = uses[member.root];
    member.disk = os::find_disk_bytes(pid, proc_).value_or(member.disk);
    use.cpu_seconds += member.reading.cpu_seconds;
    use.memory_bytes += measure_memory(member, use.processes == 1);
    use.read_bytes += member.disk.read;
    use.written_bytes += member.disk.written;
  }
  std::vector<TreeUse> result;
  result.reserve(roots.size());
  for (const int root : roots) {
    result.push_back(add_lost(root, uses[root]));
  }
  ++looks_;
  return result;
}

}  // namespace lockstep::cluster
