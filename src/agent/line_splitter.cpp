// SPDX-License-Identifier: Apache-2.0
#include "agent/line_splitter.h"

#include <utility>

namespace lockstep::agent {

void LineSplitter::take_line(std::string_view rest, Output& output) {
  output.lines += unfinished_;
  output.lines += rest;
  unfinished_.clear();
  follows_return_ = false;
}

size_t LineSplitter::take_return(std::string_view chunk, size_t start, size_t end, Output& output) {
  if (end + 1 < chunk.size() && chunk[end + 1] == '\n') {
    take_line(chunk.substr(start, end + 2 - start), output);
    return end + 2;
  }
  unfinished_ += chunk.substr(start, end - start);
  if (!unfinished_.empty()) {
    output.status = unfinished_;
  }
  if (end + 1 == chunk.size()) {
    ends_with_return_ = true;
  } else {
    unfinished_.clear();
    follows_return_ = true;
  }
  return end + 1;
}

LineSplitter::Output LineSplitter::feed(std::string_view chunk) {
  Output output;
  if (chunk.empty()) {
    return output;
  }
  size_t start = 0;
  if (std::exchange(ends_with_return_, false)) {
    if (chunk.front() == '\n') {
      take_line("\r\n", output);
      start = 1;
    } else {
      unfinished_.clear();
      follows_return_ = true;
    }
  }
  for (;;) {
    // Most output has no '\r' at all: then every whole line is taken at once.
    const size_t back = chunk.find('\r', start);
    const size_t last = chunk.substr(0, back).rfind('\n');
    if (last != std::string_view::npos && last >= start) {
      take_line(chunk.substr(start, last + 1 - start), output);
      start = last + 1;
    }
    if (back == std::string_view::npos) {
      break;
    }
    start = take_return(chunk, start, back, output);
  }
  unfinished_ += chunk.substr(start);
  if (follows_return_ && !unfinished_.empty()) {
    output.status = unfinished_;  // a bar that is drawn with '\r' first, as tqdm does
  }
  if (unfinished_.size() > kLongestLine) {
    take_line("", output);
  }
  return output;
}

std::string LineSplitter::finish() {
  follows_return_ = false;
  const bool is_status = std::exchange(ends_with_return_, false);
  std::string rest = std::exchange(unfinished_, {});
  return is_status ? std::string() : rest;
}

std::string prefix_lines(std::string_view prefix, std::string_view lines) {
  std::string text;
  text.reserve(lines.size() + lines.size() / 4 + prefix.size());
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    text += prefix;
    text += lines.substr(0, end);
    text += '\n';
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
  }
  return text;
}

}  // namespace lockstep::agent
