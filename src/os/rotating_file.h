// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"

namespace lockstep::os {

// A file of lines that grows at its end and never for ever: when it is full it becomes PATH.1, what
// was that PATH.2, and so on; the oldest part goes. A reader that has the file open reads its part
// to the end.
//
// Every append() is one write, so that a crash leaves at most one unfinished line, and whoever
// appends later begins on a line of its own. One thread.
class RotatingFile {
 public:
  struct Limits {
    int64_t part_bytes = int64_t{64} << 20;
    int old_parts = 4;
  };

  // Opens nothing yet.
  explicit RotatingFile(std::filesystem::path path);
  RotatingFile(std::filesystem::path path, Limits limits);

  // Adds whole lines; makes the file and its directory where they are missing. False when they
  // could not be written, all or in part: fault() tells why. The next call tries again.
  bool append(std::string_view lines);

  const std::filesystem::path& path() const { return path_; }
  const std::string& fault() const { return fault_; }

  // Whether fault() is that there is no room left.
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
  bool is_torn_ = false;  // the last line has no end
  std::string fault_;
  bool is_out_of_room_ = false;
};

// The parts of such a file that are there, the oldest first and the one that grows last.
std::vector<std::filesystem::path> find_parts(const std::filesystem::path& path);

}  // namespace lockstep::os
