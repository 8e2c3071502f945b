// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace lockstep::os {

// The contents of a file in memory, read-only, shared with all processes that map the file.
//
// The file must not be truncated while it is mapped. Thread-safe.
class MappedFile {
 public:
  // Throws an Error (74) that names the file and the reason.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
};

}  // namespace lockstep::os
