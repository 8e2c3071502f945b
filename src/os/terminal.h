// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

namespace lockstep::os {

bool is_terminal(int fd);

// Columns of the terminal behind `fd`; nothing when there is none, or it does not tell.
std::optional<int> find_terminal_columns(int fd);

struct TerminalSize {
  int columns = 0;
  int rows = 0;
};
std::optional<TerminalSize> find_terminal_size(int fd);

// While it lives, keys come one by one and are not shown, and the screen is one of our own without
// a cursor. At the end the terminal is as it was, with what it showed. Signals from keys, as
// Ctrl-C, still come: their owner must let this one end.
class FullScreen {
 public:
  // Reads from one terminal and draws on another, which mostly is the same. Throws an Error (74).
  FullScreen(int input, int output);
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;
  ~FullScreen();

  // Gives the terminal back, stops this process as Ctrl-Z does, and takes it again when it goes on.
  void suspend();

 private:
  struct Former;
  void enter();
  void leave() noexcept;

  int input_;
  int output_;
  std::unique_ptr<Former> former_;
};

}  // namespace lockstep::os
