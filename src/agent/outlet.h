// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>

#include "os/fd.h"

namespace lockstep::agent {

// One end of the launcher's own output: a file, a pipe, a terminal, or nobody.
//
// Never blocks on a reader and never grows without bound: what the reader does not take yet waits
// here, up to kMostWaitingBytes; further lines are dropped and counted, and one line tells how many
// when there is room again. A file takes everything at once and never drops. One thread.
class Outlet {
 public:
  enum class Kind {
    Pipe,  // or anything else that may make a writer wait
    Terminal,
    File,
    Nobody,  // /dev/null, a closed descriptor, a reader that has gone
  };
  static constexpr size_t kMostWaitingBytes = size_t{16} << 20;
  static constexpr size_t kRoomAgainBytes = kMostWaitingBytes / 2;

  // What is behind a descriptor of this process.
  static Kind kind_of(int fd);

  Outlet(int fd, Kind kind);

  // Puts `prefix` before each of `lines`, and ends the last one with '\n' if it does not.
  void add_lines(std::string_view prefix, std::string_view lines);

  // Adds text as it is, whether there is room or not: for what is short and rare.
  void add(std::string_view text);

  // Writes what the reader takes now.
  void write_some();

  // Tells of the lines that were dropped, if any, though there is no room yet.
  void tell_dropped();

  // Forgets what is not written yet, and all that comes later.
  void give_up();

  bool is_terminal() const { return kind_ == Kind::Terminal; }
  bool is_nobody() const { return kind_ == Kind::Nobody; }

  // The descriptor that must become writable before write_some can go on; -1 when all is written.
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
  os::Fd own_;  // the same pipe or terminal, opened so that writing never blocks
  std::deque<Piece> pieces_;
  size_t written_of_front_ = 0;
  size_t waiting_bytes_ = 0;
  bool is_dropping_ = false;
  uint64_t dropped_lines_ = 0;
  uint64_t dropped_bytes_ = 0;
};

}  // namespace lockstep::agent
