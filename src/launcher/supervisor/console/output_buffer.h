// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>

#include "common/os/fd.h"

namespace lockstep::supervisor {

// Buffered output of the launcher to a file, a pipe or a terminal.
//
// Never blocks on a slow reader and never grows without bound: at most kMaxWaitingBytes are
// buffered. Further lines are dropped and counted, and their number is printed when there is room
// again. Output to a file is written at once and never dropped. Not thread-safe.
class OutputBuffer {
 public:
  enum class Kind {
    Pipe,  // or anything else that may block a writer
    Terminal,
    File,
    NoReader,  // /dev/null, a closed descriptor, a pipe without a reader
  };
  static constexpr size_t kMaxWaitingBytes = size_t{16} << 20;
  static constexpr size_t kRoomAgainBytes = kMaxWaitingBytes / 2;

  // The kind of a descriptor of this process.
  static Kind kind_of(int fd);

  OutputBuffer(int fd, Kind kind);

  // Adds `prefix` before each of `lines`, and a final '\n' if it is missing.
  void add_lines(std::string_view prefix, std::string_view lines);

  // Adds text unchanged, even if there is no room: for short and rare messages.
  void add(std::string_view text);

  // Writes as much as the reader accepts now.
  void write_some();

  // Reports dropped lines, if any, even if there is no room yet.
  void report_dropped();

  // Discards the unwritten output and all further output.
  void give_up();

  bool is_terminal() const { return kind_ == Kind::Terminal; }
  bool has_no_reader() const { return kind_ == Kind::NoReader; }

  // The descriptor that must become writable before write_some() can continue; -1: all is written.
  int waiting_fd() const;
  size_t waiting_bytes() const { return waiting_bytes_; }

 private:
  struct Piece {
    std::unique_ptr<char[]> text;  // NOLINT(modernize-avoid-c-arrays): not filled with zeros
    size_t size = 0;
    size_t capacity = 0;
  };

  void append_prefixed(std::string_view prefix, std::string_view lines);
  char* make_room(size_t bytes);
  bool write_front();

  Kind kind_;
  int fd_;
  os::Fd own_;  // the same pipe or terminal, opened again as non-blocking
  std::deque<Piece> pieces_;
  size_t written_of_front_ = 0;
  size_t waiting_bytes_ = 0;
  bool is_dropping_ = false;
  uint64_t dropped_lines_ = 0;
  uint64_t dropped_bytes_ = 0;
};

}  // namespace lockstep::supervisor
