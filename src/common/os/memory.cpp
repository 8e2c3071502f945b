// SPDX-License-Identifier: Apache-2.0
#include "common/os/memory.h"

#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

namespace lockstep::os {

bool keep_freed_memory() {
#if defined(__GLIBC__)
  // glibc serves blocks above the mmap threshold by mmap and unmaps them in free(), and by default
  // it adapts both thresholds. Setting one of them stops the adaptation. Activations of a few
  // hundred MiB must be below the first; the second must be larger than the memory freed in one
  // step. Older versions of glibc refuse an mmap threshold of more than 32 MiB; the result is then
  // false.
  constexpr int kMapAbove = 256 << 20;
  constexpr int kTrimAbove = 512 << 20;
  constexpr int kGrowBy = 64 << 20;
  return ::mallopt(M_MMAP_THRESHOLD, kMapAbove) == 1 &&
         ::mallopt(M_TRIM_THRESHOLD, kTrimAbove) == 1 && ::mallopt(M_TOP_PAD, kGrowBy) == 1;
#else
  return false;
#endif
}

void give_back_freed_memory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

void* map_memory(size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void unmap_memory(void* memory, size_t bytes) {
  ::munmap(memory, bytes);
}

uint64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  // In KiB on Linux.
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0;
  uint64_t resident = 0;
  file >> all >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

void* find_symbol(const char* name) {
  return ::dlsym(RTLD_DEFAULT, name);
}

std::string library_of(const char* symbol) {
  Dl_info info{};
  const void* address = find_symbol(symbol);
  if (address == nullptr || ::dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return "";
  }
  std::error_code fault;
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, fault);
  return fault ? info.dli_fname : file.string();
}

}  // namespace lockstep::os
