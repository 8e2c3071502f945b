// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::monitor {

struct LogLine {
  uint64_t offset = 0;  // of its first byte in the file
  std::string text;     // without its end; cut where it is very long

  bool operator==(const LogLine&) const = default;
};

// Some lines of a log.
struct LogPage {
  std::vector<LogLine> lines = {};
  uint64_t next = 0;           // the offset to go on from
  uint64_t size_bytes = 0;     // of the file
  uint64_t searched_from = 0;  // where the search began: a long file is read from near its end
};

struct LogWish {
  std::string search = {};             // only lines with it, in small or capital letters
  std::optional<uint64_t> after = {};  // the `next` of an earlier page; absent: the newest lines
  size_t most_lines = 500;
  uint64_t most_bytes = 64ULL << 20;  // read at a time
};

// Reads whole lines only: what has no end yet comes with a later page. A file that is not there is
// an empty one; one that has become shorter than `after` is read anew. Throws an Error (74).
LogPage read_log(const std::filesystem::path& path, const LogWish& wish);

}  // namespace lockstep::monitor
