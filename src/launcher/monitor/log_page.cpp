// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/log_page.h"

#include <algorithm>
#include <deque>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/base/text.h"
#include "common/os/files.h"

// A page is identified by byte offsets, not by line numbers: an offset stays valid while the log
// grows, and finding it needs no scan. `next` of a page is `after` of the following one, so a
// client that polls with it receives each line exactly once.
namespace lockstep::monitor {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kChunkBytes = 1ULL << 20;
constexpr size_t kMaxLineLength = 4096;

// Passes each complete line from `begin` on to `take`, with its offset, until the end of the file
// or until `take` returns false. Returns the offset after the last line that was taken.
template <typename Take>
uint64_t each_line(const os::InputFile& file, uint64_t begin, Take take) {
  std::string rest;
  uint64_t offset = begin;  // of rest
  for (uint64_t at = begin; at < file.size();) {
    const uint64_t bytes = std::min(kChunkBytes, file.size() - at);
    const size_t old = rest.size();
    rest.resize(old + bytes);
    file.read(at, rest.data() + old, bytes);
    at += bytes;
    size_t start = 0;
    for (size_t end = rest.find('\n', old); end != std::string::npos;
         end = rest.find('\n', start)) {
      const std::string_view line(rest.data() + start, end - start);
      if (!take(offset + start, line)) {
        return offset + start;
      }
      start = end + 1;
    }
    rest.erase(0, start);
    offset += start;
  }
  return offset;
}

// The offset of the first line that starts at `wanted` or later. Begins one byte before `wanted`:
// if that byte is a line end, the line at `wanted` is complete and must not be skipped.
uint64_t begin_of_line(const os::InputFile& file, uint64_t wanted) {
  if (wanted == 0) {
    return 0;
  }
  char byte = 0;
  for (uint64_t at = wanted - 1; at < file.size(); ++at) {
    file.read(at, &byte, 1);
    if (byte == '\n') {
      return at + 1;
    }
  }
  return file.size();
}

LogLine cut(uint64_t offset, std::string_view line) {
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  std::string text(line.substr(0, kMaxLineLength));
  text += line.size() > kMaxLineLength ? " ..." : "";
  return {.offset = offset, .text = std::move(text)};
}

}  // namespace

// Two modes. The tail (no `after`) reads to the end and keeps the last max_lines lines. A
// continuation reads forward from `after` and stops at the line after max_lines matches, which
// becomes `next`. file.size() is fixed when the file is opened; what is appended later belongs to
// the next page.
LogPage read_log(const fs::path& path, const LogQuery& query) {
  std::error_code fault;
  if (!fs::is_regular_file(path, fault)) {
    return {};
  }
  const os::InputFile file(path);
  const std::string word = to_lower(query.search);
  const bool is_tail = !query.after || *query.after > file.size();
  // Without a search only the end of the file is read. Lines are truncated to 4 KiB, so this many
  // bytes are enough unless lines are longer.
  const uint64_t maximum =
      word.empty() ? std::min<uint64_t>(query.max_bytes, query.max_lines * kMaxLineLength)
                   : query.max_bytes;
  const uint64_t begin =
      is_tail ? begin_of_line(file, file.size() > maximum ? file.size() - maximum : 0)
              : *query.after;

  LogPage page{.lines = {}, .next = 0, .size_bytes = file.size(), .searched_from = begin};
  std::deque<LogLine> lines;
  page.next = each_line(file, begin, [&](uint64_t offset, std::string_view line) {
    if (!word.empty() && to_lower(line).find(word) == std::string::npos) {
      return true;
    }
    if (!is_tail && lines.size() == query.max_lines) {
      return false;
    }
    lines.push_back(cut(offset, line));
    if (lines.size() > query.max_lines) {
      lines.pop_front();
    }
    return true;
  });
  page.lines.assign(std::make_move_iterator(lines.begin()), std::make_move_iterator(lines.end()));
  return page;
}

}  // namespace lockstep::monitor
