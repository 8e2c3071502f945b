// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::agent {

// Cuts a worker's stream of bytes into lines and status lines.
//
// A line ends with '\n' (or "\r\n"). What ends with a lone '\r' is a status line, a progress bar's
// text for the moment, and belongs on a screen only. No byte of a line is lost or changed.
class LineSplitter {
 public:
  struct Output {
    std::string lines;                  // whole lines, byte for byte
    std::optional<std::string> status;  // the newest, if one came
  };

  // Takes what was read. A line longer than kLongestLine comes in pieces.
  Output feed(std::string_view chunk);

  // What is left at the end of the stream: a last line without '\n'.
  std::string finish();

  static constexpr size_t kLongestLine = size_t{1} << 20;

 private:
  // The place after the segment that ends at `end`, a '\r' of `chunk`.
  size_t take_return(std::string_view chunk, size_t start, size_t end, Output& output);
  void take_line(std::string_view rest, Output& output);

  std::string unfinished_;
  bool follows_return_ = false;    // what is unfinished began after a '\r'
  bool ends_with_return_ = false;  // a '\r' came last: a status line, unless '\n' comes next
};

// Puts `prefix` before each line; ends the last one with '\n' if it does not.
std::string prefix_lines(std::string_view prefix, std::string_view lines);

}  // namespace lockstep::agent
