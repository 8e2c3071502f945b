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
  std::string text;     // without the line end; truncated if it is very long

  bool operator==(const LogLine&) const = default;
};

// A range of lines of a log.
struct LogPage {
  std::vector<LogLine> lines = {};
  uint64_t next = 0;           // offset at which the next page starts
  uint64_t size_bytes = 0;     // of the file
  uint64_t searched_from = 0;  // start of the search; only the end of a long file is searched
};

struct LogQuery {
  std::string search = {};             // only lines that contain it; case-insensitive
  std::optional<uint64_t> after = {};  // the `next` of an earlier page; absent: the newest lines
  size_t max_lines = 500;
  uint64_t max_bytes = 64ULL << 20;  // maximum to read for one page
};

// Reads complete lines only: a line without its end is part of a later page. A missing file counts
// as empty. A file that is now shorter than `after` is read again from near its end. Throws an
// Error (74) if the file cannot be read.
LogPage read_log(const std::filesystem::path& path, const LogQuery& query);

}  // namespace lockstep::monitor
