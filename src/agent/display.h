// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::agent {

// What the user sees: the gang's lines on the agent's own stdout and stderr, in the order in which
// they came, and on a terminal the newest status line below them.
//
// Never blocks: what the reader does not take yet waits here. A reader that has gone (a closed
// pipe) is no reason to stop a training; its text is dropped, the logs have it. One thread.
class Display {
 public:
  enum class Stream { Out, Err };
  struct Target {
    int fd = -1;
    bool is_terminal = false;
    bool is_file = false;  // never makes a writer wait
    bool is_gone = false;
  };

  // The agent's own stdout and stderr.
  static Display of_this_process();

  Display(Target out, Target err, int columns);
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  // Adds whole lines.
  void add_lines(Stream stream, std::string_view lines);

  // Shows `text` below the lines until the next one; nothing clears it.
  void show_status(std::string_view text);
  void clear_status();

  // Writes what the reader takes now.
  void write_some();

  // Forgets what is not written yet, and all that comes later.
  void give_up();

  // The descriptor that must become writable before write_some can go on; -1 when all is written.
  int waiting_fd() const;
  size_t waiting_bytes() const { return waiting_bytes_; }

 private:
  struct Piece {
    Target* target;
    std::string text;
  };
  void add(Target& target, std::string_view text);
  bool write_front();
  Target* screen();

  Target out_;
  Target err_;
  int columns_;
  std::string status_;
  std::deque<Piece> pieces_;
  size_t written_of_front_ = 0;
  size_t waiting_bytes_ = 0;
};

// As many characters of `text` as fit in `columns`; UTF-8, colours take no room.
std::string cut_to_columns(std::string_view text, int columns);

}  // namespace lockstep::agent
