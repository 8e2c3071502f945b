// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace lockstep::os {

// What this process, and those that it starts, may have: ulimit's soft values.
struct ResourceLimits {
  static constexpr uint64_t kUnlimited = UINT64_MAX;
  uint64_t open_files = kUnlimited;
  uint64_t most_open_files = kUnlimited;  // to which open_files may be raised
  uint64_t locked_bytes = kUnlimited;
  uint64_t processes = kUnlimited;
};
ResourceLimits resource_limits();

// Of the file system that `path` lies on; nothing when there is no such path.
struct Space {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // for this user
};
std::optional<Space> find_space(const std::filesystem::path& path);

// Main memory of this machine.
uint64_t machine_memory_bytes();

// Processors that are switched on, granted or not.
int machine_processors();

}  // namespace lockstep::os
