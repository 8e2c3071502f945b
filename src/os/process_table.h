// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

// What the kernel tells of other processes. Each may end between two looks: then there is nothing,
// which is no error. `proc` is where the kernel tells it.
namespace lockstep::os {

struct ProcessReading {
  int pid = 0;
  int parent = 0;
  int group = 0;
  bool has_ended = false;  // and nobody has taken its end yet
  uint64_t began = 0;  // ticks since the machine was started: tells it from others of its number
  double cpu_seconds = 0;  // its own, and that of children whose end it has taken
  int64_t resident_bytes = 0;

  bool operator==(const ProcessReading&) const = default;
};

// Bytes from and to disks, with those of children whose end it has taken.
struct DiskBytes {
  int64_t read = 0;
  int64_t written = 0;

  bool operator==(const DiskBytes&) const = default;
};

// The numbers of all processes, in no order.
std::vector<int> list_processes(const std::filesystem::path& proc = "/proc");

std::optional<ProcessReading> find_process(int pid, const std::filesystem::path& proc = "/proc");

// Nothing too where somebody else's process is asked about.
std::optional<DiskBytes> find_disk_bytes(int pid, const std::filesystem::path& proc = "/proc");

// Its share of memory: what it has with others is divided among them. The kernel walks all pages
// for that; not for every second.
std::optional<int64_t> find_proportional_bytes(int pid,
                                               const std::filesystem::path& proc = "/proc");

// In which /proc counts CPU time.
double ticks_per_second();

}  // namespace lockstep::os
