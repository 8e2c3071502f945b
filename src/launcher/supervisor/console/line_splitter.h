// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::supervisor {

// Splits the output of a worker into lines and status lines.
//
// A line ends with '\n' (or "\r\n"). Text that ends with a single '\r' is a status line, the
// current text of a progress bar, which is shown only on a terminal. No byte of a line is lost or
// changed. Without a '\r', bytes are read once and copied only if a line is split between two
// chunks.
class LineSplitter {
 public:
  struct Output {
    // Complete lines, unchanged; lines[1] follows lines[0]. Valid until the next call and as long
    // as the chunk is.
    std::array<std::string_view, 2> lines;
    std::optional<std::string> status;  // the newest one, if any
  };

  // Processes a chunk. A line longer than kLongestLine is returned in pieces.
  Output feed(std::string_view chunk);

  // The last line of the stream, if it has no '\n'.
  std::string finish();

  static constexpr size_t kLongestLine = size_t{1} << 20;

 private:
  void take_plain(std::string_view chunk, Output& output);
  void take_with_returns(std::string_view chunk, Output& output);
  // Returns the position after the segment that ends at `end`, a '\r' in `chunk`.
  size_t take_return(std::string_view chunk, size_t start, size_t end, Output& output);
  void take_line(std::string_view rest);

  std::string unfinished_;
  std::string joined_;             // output lines that are not contiguous in the chunk
  bool follows_return_ = false;    // unfinished_ started after a '\r'
  bool ends_with_return_ = false;  // the last byte was '\r': a status line, unless '\n' follows
};

}  // namespace lockstep::supervisor
