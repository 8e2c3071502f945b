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
