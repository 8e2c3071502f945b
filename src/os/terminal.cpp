// SPDX-License-Identifier: Apache-2.0
#include "os/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace lockstep::os {

bool is_terminal(int fd) {
  return ::isatty(fd) == 1;
}

std::optional<int> find_terminal_columns(int fd) {
  winsize size{};
  if (!is_terminal(fd) || ::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return std::nullopt;
  }
  return size.ws_col;
}

}  // namespace lockstep::os
