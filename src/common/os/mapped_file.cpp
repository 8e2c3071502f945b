// SPDX-License-Identifier: Apache-2.0
#include "common/os/mapped_file.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "common/os/fd.h"
#include "common/os/system_error.h"
#include "lockstep/error.h"

namespace lockstep::os {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, int number) {
  throw system_error(ExitCode::Io, fmt::format("cannot read {}", path.string()), number);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    refuse(path, errno);
  }
  struct stat status = {};
  if (::fstat(file.number(), &status) != 0) {
    refuse(path, errno);
  }
  if (S_ISDIR(status.st_mode)) {
    refuse(path, EISDIR);
  }
  // An empty file cannot be mapped and needs no mapping.
  if (status.st_size == 0) {
    return;
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
  if (start == MAP_FAILED) {
    refuse(path, errno);
  }
  bytes_ = {static_cast<const uint8_t*>(start), size};
}

// The mapping outlives the descriptor that the constructor has closed.
MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

// The previous mapping moves to `other`, whose destructor unmaps it.
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace lockstep::os
