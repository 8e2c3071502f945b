// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/os/growing_file.h"

namespace lockstep::monitor {

// Follows the lines of a file that another process appends to and rotates: FILE becomes FILE.1,
// FILE.1 becomes FILE.2, and a new FILE starts. Files are recognized by device and inode, so a
// rotation between two reads loses no line unless the rotated file has been deleted. Keeps no file
// open, because there may be thousands.
class LineTail {
 public:
  using Take = std::function<void(std::string_view line)>;

  explicit LineTail(std::filesystem::path file) : file_(std::move(file)) {}

  // Passes every new complete line to `take`, in the order in which they were written. Returns
  // whether there were new bytes.
  bool read(const Take& take);

  // Number of lines that were too long, plus files that were deleted or truncated before they were
  // read completely.
  int64_t losses() const { return losses_; }

 private:
  struct Aside {
    std::filesystem::path path;
    os::FileIdentity identity;
  };
  std::vector<Aside> find_aside() const;
  bool catch_up(const Take& take);
  bool read_file(const std::filesystem::path& path,
                 const os::FileIdentity& expected,
                 const Take& take);
  void give(std::string_view bytes, const Take& take);
  void begin_file();

  std::filesystem::path file_;
  std::optional<os::FileIdentity> identity_;  // of the file that was read last
  uint64_t offset_ = 0;                       // in that file
  std::string rest_;                          // start of a line whose end is not written yet
  bool is_skipping_ = false;                  // until the end of a line that is too long
  int64_t losses_ = 0;
};

}  // namespace lockstep::monitor
