// SPDX-License-Identifier: Apache-2.0
#include "common/os/limits.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace lockstep::os {
namespace {

uint64_t to_bytes(rlim_t value) {
  return value == RLIM_INFINITY ? ResourceLimits::kUnlimited : static_cast<uint64_t>(value);
}

rlimit limit_of(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(resource, &limit);
  return limit;
}

}  // namespace

ResourceLimits resource_limits() {
  const rlimit files = limit_of(RLIMIT_NOFILE);
  return {.open_files = to_bytes(files.rlim_cur),
          .max_open_files = to_bytes(files.rlim_max),
          .locked_bytes = to_bytes(limit_of(RLIMIT_MEMLOCK).rlim_cur),
          .processes = to_bytes(limit_of(RLIMIT_NPROC).rlim_cur)};
}

// f_bavail, not f_bfree: the difference is reserved for root.
std::optional<Space> find_space(const std::filesystem::path& path) {
  struct statvfs found {};
  if (::statvfs(path.c_str(), &found) != 0) {
    return std::nullopt;
  }
  return Space{.total_bytes = uint64_t{found.f_blocks} * found.f_frsize,
               .free_bytes = uint64_t{found.f_bavail} * found.f_frsize};
}

uint64_t machine_memory_bytes() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

int machine_processors() {
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace lockstep::os
