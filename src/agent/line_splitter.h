// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::agent {

// Cuts a worker's stream of bytes into lines and status lines.
//
// A line ends with '\n' (or "\r\n"). What ends with a lone '\r' is a status line, a progress bar's
// text for the moment, and belongs on a screen only. No byte of a line is lost or changed. Where no
// '\r' comes, bytes are looked at once and copied only where a line was torn.
class LineSplitter {
 public:
  struct Output {
    // Whole lines, byte for byte, the second after the first; valid until the next call, and while
    // the chunk is.
    std::array<std::string_view, 2> lines;
    std::optional<std::string> status;  // the newest, if one came
  };

  // Takes what was read. A line longer than kLongestLine comes in pieces.
  Output feed(std::string_view chunk);

  // What is left at the end of the stream: a last line without '\n'.
  std::string finish();

  static constexpr size_t kLongestLine = size_t{1} << 20;

 private:
  void take_plain(std::string_view chunk, Output& output);
  void take_with_returns(std::string_view chunk, Output& output);
  // The place after the segment that ends at `end`, a '\r' of `chunk`.
  size_t take_return(std::string_view chunk, size_t start, size_t end, Output& output);
  void take_line(std::string_view rest);

  std::string unfinished_;
  std::string joined_;             // lines of the output that do not lie in the chunk as they are
  bool follows_return_ = false;    // what is unfinished began after a '\r'
  bool ends_with_return_ = false;  // a '\r' came last: a status line, unless '\n' comes next
};

}  // namespace lockstep::agent
