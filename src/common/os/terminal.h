// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

namespace lockstep::os {

bool is_terminal(int fd);

// Columns of the terminal of `fd`; nothing if it is not a terminal or the size is unknown.
std::optional<int> find_terminal_columns(int fd);

struct TerminalSize {
  int columns = 0;
  int rows = 0;
};
std::optional<TerminalSize> find_terminal_size(int fd);

// During its lifetime, keys are delivered one by one without echo, and the terminal shows an
// alternate screen without a cursor. The destructor restores the terminal and its contents. Keys
// such as Ctrl-C still send signals: their handler must make sure that the destructor runs.
class FullScreen {
 public:
  // Reads from one terminal and draws on another, usually the same. Throws an Error (74).
  FullScreen(int input, int output);
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;
  ~FullScreen();

  // Restores the terminal, stops this process like Ctrl-Z, and takes it again on SIGCONT.
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
