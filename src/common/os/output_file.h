// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "common/os/fd.h"

namespace lockstep::os {

// A new file, written sequentially. Every failure is an Error (Io) that names the path and the
// reason.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }

  void write(std::string_view bytes);

  // On return the data is on disk, but the name might not be.
  void close();

 private:
  std::filesystem::path path_;
  Fd file_;
  uint64_t size_ = 0;
  uint64_t begun_ = 0;  // bytes whose write-back has started
};

}  // namespace lockstep::os
