// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

// Information about other processes. A process can end at any time: then the result is empty, which
// is not an error. `proc` is the directory of procfs.
namespace lockstep::os {

struct ProcessReading {
  int pid = 0;
  int parent = 0;
  int group = 0;
  bool has_ended = false;  // zombie: its parent has not collected it yet
  uint64_t began = 0;      // clock ticks since boot: distinguishes processes with the same number
  double cpu_seconds = 0;  // its own, and that of children that it has waited for
  int64_t resident_bytes = 0;

  bool operator==(const ProcessReading&) const = default;
};

// Bytes from and to disks, including children that it has waited for.
struct DiskBytes {
  int64_t read = 0;
  int64_t written = 0;

  bool operator==(const DiskBytes&) const = default;
};

// The numbers of all processes, unordered.
std::vector<int> list_processes(const std::filesystem::path& proc = "/proc");

std::optional<ProcessReading> find_process(int pid, const std::filesystem::path& proc = "/proc");

// Also empty for a process of another user.
std::optional<DiskBytes> find_disk_bytes(int pid, const std::filesystem::path& proc = "/proc");

// Its proportional share of memory: shared pages are divided among their users. The kernel walks
// all pages for it, so do not call it every second.
std::optional<int64_t> find_proportional_bytes(int pid,
                                               const std::filesystem::path& proc = "/proc");

// Ticks per second of CPU times in /proc.
double ticks_per_second();

}  // namespace lockstep::os
