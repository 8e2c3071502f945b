// SPDX-License-Identifier: Apache-2.0
#include "common/os/terminal.h"

#include <cerrno>
#include <csignal>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "common/os/pipe.h"
#include "common/os/system_error.h"

namespace lockstep::os {
namespace {

// Alternate screen without a cursor, and back.
constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr const char* kLeave = "\x1b[?25h\x1b[?1049l";

}  // namespace

bool is_terminal(int fd) {
  return ::isatty(fd) == 1;
}

std::optional<int> find_terminal_columns(int fd) {
  const auto size = find_terminal_size(fd);
  return size ? std::optional(size->columns) : std::nullopt;
}

std::optional<TerminalSize> find_terminal_size(int fd) {
  winsize size{};
  if (!is_terminal(fd) || ::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return std::nullopt;
  }
  return TerminalSize{.columns = size.ws_col, .rows = size.ws_row};
}

struct FullScreen::Former {
  termios settings{};
};

FullScreen::FullScreen(int input, int output)
    : input_(input), output_(output), former_(std::make_unique<Former>()) {
  if (::tcgetattr(input_, &former_->settings) != 0) {
    throw system_error(ExitCode::Io, "cannot switch the terminal to single keys", errno);
  }
  enter();
}

FullScreen::~FullScreen() {
  leave();
}

// VMIN 1 and VTIME 0: read() returns as soon as one key is available. ISIG stays set, so that
// Ctrl-C and Ctrl-Z work. TCSADRAIN lets pending output finish under the old settings.
void FullScreen::enter() {
  termios settings = former_->settings;
  settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  settings.c_cc[VMIN] = 1;
  settings.c_cc[VTIME] = 0;
  ::tcsetattr(input_, TCSADRAIN, &settings);
  write_all(output_, kEnter);
}

void FullScreen::leave() noexcept {
  write_all(output_, kLeave);
  ::tcsetattr(input_, TCSADRAIN, &former_->settings);
}

void FullScreen::suspend() {
  leave();
  // Not SIGTSTP, which the process can have blocked for its SignalFd.
  ::raise(SIGSTOP);
  enter();
}

}  // namespace lockstep::os
