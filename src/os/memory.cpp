// SPDX-License-Identifier: Apache-2.0
#include "os/memory.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/resource.h>

namespace lockstep::os {

bool keep_freed_memory() {
#if defined(__GLIBC__)
  constexpr int kMapAbove = 256 << 20;
  constexpr int kTrimAbove = 512 << 20;
  constexpr int kGrowBy = 64 << 20;
  return ::mallopt(M_MMAP_THRESHOLD, kMapAbove) == 1 &&
         ::mallopt(M_TRIM_THRESHOLD, kTrimAbove) == 1 && ::mallopt(M_TOP_PAD, kGrowBy) == 1;
#else
  return false;
#endif
}

uint64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

void* find_symbol(const char* name) {
  return ::dlsym(RTLD_DEFAULT, name);
}

}  // namespace lockstep::os
