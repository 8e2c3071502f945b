// SPDX-License-Identifier: Apache-2.0
#include "common/os/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace lockstep::os {
namespace {

// MAP_POPULATE maps all pages now, so that the first collectives do not take page faults.
std::byte* map(int descriptor, size_t bytes) {
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

}  // namespace

// O_EXCL: a leftover segment of a killed run is never adopted, as its contents would be stale.
std::optional<SharedMemory> SharedMemory::create(const std::string& name, size_t bytes) {
  const int descriptor = ::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return std::nullopt;
  }
  // Allocates the pages now; with a full /dev/shm, the first write would cause SIGBUS.
  std::byte* data = nullptr;
  if (::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes)) == 0) {
    data = map(descriptor, bytes);
  }
  ::close(descriptor);
  if (data == nullptr) {
    remove_name(name);
    return std::nullopt;
  }
  return SharedMemory(data, bytes);
}

// The caller must know that the creator has finished create(): a shorter segment can be mapped, but
// an access beyond its end causes SIGBUS.
std::optional<SharedMemory> SharedMemory::open(const std::string& name, size_t bytes) {
  const int descriptor = ::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return std::nullopt;
  }
  std::byte* data = map(descriptor, bytes);
  ::close(descriptor);
  if (data == nullptr) {
    return std::nullopt;
  }
  return SharedMemory(data, bytes);
}

void SharedMemory::remove_name(const std::string& name) {
  ::shm_unlink(name.c_str());
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) {
    ::munmap(data_, bytes_);
  }
}

}  // namespace lockstep::os
