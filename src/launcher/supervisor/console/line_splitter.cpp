// SPDX-License-Identifier: Apache-2.0
//
// State between two chunks is one of these, with the text in unfinished_:
//
//   plain               "los"            the start of a line
//   follows_return_     "\r 50%|###"     text after '\r': a progress bar that is being drawn
//   ends_with_return_   "50%\r"          complete status, or the start of "\r\n"
//
// Only '\r' as the last byte of a chunk is ambiguous; the next byte decides.
#include "launcher/supervisor/console/line_splitter.h"

#include <utility>

namespace lockstep::supervisor {

// joined_ collects lines in the order of the stream. Output shows joined_ before lines[1], so
// nothing may be appended here after lines[1] was set; feed() checks this for long lines.
void LineSplitter::take_line(std::string_view rest) {
  joined_ += unfinished_;
  joined_ += rest;
  unfinished_.clear();
  follows_return_ = false;
}

// Text before a single '\r' is overwritten on a terminal, so it is dropped as soon as something
// else follows.
size_t LineSplitter::take_return(std::string_view chunk, size_t start, size_t end, Output& output) {
  if (end + 1 < chunk.size() && chunk[end + 1] == '\n') {
    take_line(chunk.substr(start, end + 2 - start));
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

// Precondition: no '\r' in the chunk or directly before it.
void LineSplitter::take_plain(std::string_view chunk, Output& output) {
  const size_t last = chunk.rfind('\n');
  if (last == std::string_view::npos) {
    unfinished_ += chunk;
    return;
  }
  size_t start = 0;
  if (!unfinished_.empty()) {
    start = chunk.find('\n') + 1;
    take_line(chunk.substr(0, start));
  }
  output.lines[1] = chunk.substr(start, last + 1 - start);
  unfinished_ = chunk.substr(last + 1);
}

void LineSplitter::take_with_returns(std::string_view chunk, Output& output) {
  size_t start = 0;
  if (std::exchange(ends_with_return_, false)) {
    if (chunk.front() == '\n') {
      take_line("\r\n");
      start = 1;
    } else {
      unfinished_.clear();
      follows_return_ = true;
    }
  }
  for (;;) {
    const size_t back = chunk.find('\r', start);
    const size_t last = chunk.substr(0, back).rfind('\n');
    if (last != std::string_view::npos && last >= start) {
      take_line(chunk.substr(start, last + 1 - start));
      start = last + 1;
    }
    if (back == std::string_view::npos) {
      break;
    }
    start = take_return(chunk, start, back, output);
  }
  unfinished_ += chunk.substr(start);
  if (follows_return_ && !unfinished_.empty()) {
    output.status = unfinished_;  // a bar that starts with '\r', as in tqdm
  }
}

LineSplitter::Output LineSplitter::feed(std::string_view chunk) {
  Output output;
  joined_.clear();
  if (chunk.empty()) {
    return output;
  }
  if (follows_return_ || ends_with_return_ || chunk.find('\r') != std::string_view::npos) {
    take_with_returns(chunk, output);
  } else {
    take_plain(chunk, output);
  }
  if (unfinished_.size() > kLongestLine && output.lines[1].empty()) {
    take_line("");
  }
  output.lines[0] = joined_;
  return output;
}

std::string LineSplitter::finish() {
  follows_return_ = false;
  const bool is_status = std::exchange(ends_with_return_, false);
  std::string rest = std::exchange(unfinished_, {});
  return is_status ? std::string() : rest;
}

}  // namespace lockstep::supervisor
