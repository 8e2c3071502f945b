// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/available_memory.h"

#include <algorithm>
#include <string>

#include "common/base/text.h"
#include "common/cluster/cgroup.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

// cgroup version 1 reports "no limit" as the largest number of whole pages.
constexpr int64_t kAsGoodAsNone = INT64_MAX / 2;

// The number after `key` in lines of the form "key number ..."; 0 if there is none. The key
// includes its separator, so that it is not the beginning of a longer name.
int64_t find_value(std::string_view text, std::string_view key) {
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(key)) {
      const size_t begin = line.find_first_of("0123456789", key.size());
      const size_t end = line.find_first_not_of("0123456789", begin);
      return begin == std::string::npos ? 0
                                        : find_integer(line.substr(begin, end - begin)).value_or(0);
    }
  }
  return 0;
}

int64_t number_in(const fs::path& file, int64_t fallback) {
  return find_integer(trim(read_kernel_text(file))).value_or(fallback);
}

int64_t limit_of(const fs::path& folder, bool is_second) {
  return number_in(folder / (is_second ? "memory.max" : "memory.limit_in_bytes"), kAsGoodAsNone);
}

// The root of version 2 has no memory.max and counts as version 1 without a limit, which is
// correct.
bool is_second_version(const fs::path& folder) {
  return fs::exists(folder / "memory.max");
}

// The remaining memory of a cgroup. Cached file pages count as free: the kernel can drop them.
int64_t left_in(const fs::path& folder) {
  const bool is_second = is_second_version(folder);
  const int64_t limit = limit_of(folder, is_second);
  if (limit >= kAsGoodAsNone) {
    return kAsGoodAsNone;
  }
  const int64_t used =
      number_in(folder / (is_second ? "memory.current" : "memory.usage_in_bytes"), 0);
  const int64_t cached = find_value(read_kernel_text(folder / "memory.stat"),
                                    is_second ? "inactive_file " : "total_inactive_file ");
  return std::max<int64_t>(0, limit - used + cached);
}

}  // namespace

int64_t available_memory_bytes() {
  return available_memory_bytes(
      read_kernel_text("/proc/meminfo"), read_kernel_text("/proc/self/cgroup"), kCgroupMount);
}

// Every ancestor can have a limit of its own: Slurm sets one for the job and one for the step.
int64_t available_memory_bytes(std::string_view meminfo,
                               std::string_view membership,
                               const fs::path& mount) {
  int64_t minimum = find_value(meminfo, "MemAvailable:") * 1024;
  for (const fs::path& folder : cgroup_folders(membership, mount, "memory")) {
    minimum = std::min(minimum, left_in(folder));
  }
  return minimum;
}

int64_t memory_limit_bytes(std::string_view meminfo,
                           std::string_view membership,
                           const fs::path& mount) {
  int64_t minimum = find_value(meminfo, "MemTotal:") * 1024;
  for (const fs::path& folder : cgroup_folders(membership, mount, "memory")) {
    minimum = std::min(minimum, limit_of(folder, is_second_version(folder)));
  }
  return minimum;
}

}  // namespace lockstep::cluster
