// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/fd.h"

namespace lockstep::os {

// A file of lines with limited size: when it is full, it is renamed to PATH.1, PATH.1 to PATH.2,
// and so on; the oldest part is deleted. A reader that has the file open can read its part to the
// end.
//
// Every append() is one write. A crash therefore leaves at most one incomplete line, and a later
// append starts on a new line. Not thread-safe.
class RotatingFile {
 public:
  struct Limits {
    int64_t part_bytes = int64_t{64} << 20;
    int old_parts = 4;
  };

  // Does not open the file yet.
  explicit RotatingFile(std::filesystem::path path);
  RotatingFile(std::filesystem::path path, Limits limits);

  // Appends whole lines; creates the file and its directory if they are missing. False if some or
  // all bytes could not be written; fault() has the reason. The next call tries again.
  bool append(std::string_view lines);

  const std::filesystem::path& path() const { return path_; }
  const std::string& fault() const { return fault_; }

  // Whether fault() means that the disk is full.
  bool is_out_of_room() const { return is_out_of_room_; }

 private:
  bool open();
  void rotate();
  bool write_all(std::string_view lines);
  bool fail(int number);

  std::filesystem::path path_;
  Limits limits_;
  Fd file_;
  int64_t size_ = 0;
  bool is_torn_ = false;  // the last line is incomplete
  std::string fault_;
  bool is_out_of_room_ = false;
};

// The existing parts of such a file, from the oldest to the current one.
std::vector<std::filesystem::path> find_parts(const std::filesystem::path& path);

}  // namespace lockstep::os
