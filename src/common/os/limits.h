// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace lockstep::os {

// Limits of this process and its children: the soft values of ulimit.
struct ResourceLimits {
  static constexpr uint64_t kUnlimited = UINT64_MAX;
  uint64_t open_files = kUnlimited;
  uint64_t max_open_files = kUnlimited;  // the maximum to which open_files can be raised
  uint64_t locked_bytes = kUnlimited;
  uint64_t processes = kUnlimited;
};
ResourceLimits resource_limits();

// Space on the file system of `path`; nothing if the path does not exist.
struct Space {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // for this user
};
std::optional<Space> find_space(const std::filesystem::path& path);

// Main memory of this machine.
uint64_t machine_memory_bytes();

// Processors that are online, granted or not.
int machine_processors();

}  // namespace lockstep::os
