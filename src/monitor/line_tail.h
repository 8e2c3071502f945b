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

#include "os/growing_file.h"

namespace lockstep::monitor {

// The lines of a file that somebody writes, and now and then puts aside as FILE.1 (FILE.2, ... are
// older still) to begin a new one. Keeps no file open, as there may be thousands.
class LineTail {
 public:
  using Take = std::function<void(std::string_view line)>;

  explicit LineTail(std::filesystem::path file) : file_(std::move(file)) {}

  // Gives every whole line that is new, in order, the oldest files first; true if there were bytes.
  bool read(const Take& take);

  // Lines that were too long, and files that were gone before they were read to their end.
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
  std::optional<os::FileIdentity> identity_;  // of what was read last
  uint64_t offset_ = 0;
  std::string rest_;  // of the last line, which is not finished
  bool is_skipping_ = false;
  int64_t losses_ = 0;
};

}  // namespace lockstep::monitor
