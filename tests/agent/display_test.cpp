// SPDX-License-Identifier: Apache-2.0
#include "agent/display.h"

#include <csignal>
#include <gmock/gmock.h>

#include "os/pipe.h"
#include "os/signals.h"

namespace lockstep::agent {
namespace {

// Both streams lead into one pipe, as they do into one terminal.
class Screen {
 public:
  explicit Screen(bool is_terminal, int columns = 80)
      : pipe_(os::make_pipe()),
        display({.fd = pipe_.in.number(), .is_terminal = is_terminal},
                {.fd = pipe_.in.number(), .is_terminal = is_terminal},
                columns) {
    os::set_nonblocking(pipe_.out.number());
  }

  std::string read() {
    display.write_some();
    std::string text;
    while (os::read_some(pipe_.out.number(), text, 1 << 16) == os::ReadResult::Some) {
      display.write_some();
    }
    return text;
  }

  void close() { pipe_.out.close(); }

 private:
  os::Pipe pipe_;

 public:
  Display display;
};

TEST(Display, KeepsTheOrderOfBothStreams) {
  Screen screen(false);

  screen.display.add_lines(Display::Stream::Out, "a\n");
  screen.display.add_lines(Display::Stream::Err, "b\n");
  screen.display.add_lines(Display::Stream::Out, "c\n");

  EXPECT_EQ(screen.read(), "a\nb\nc\n");
  EXPECT_EQ(screen.display.waiting_fd(), -1);
}

TEST(Display, ShowsNoStatusWhereThereIsNoTerminal) {
  Screen screen(false);

  screen.display.show_status("10 %");
  screen.display.add_lines(Display::Stream::Out, "a\n");
  screen.display.clear_status();

  EXPECT_EQ(screen.read(), "a\n");
}

TEST(Display, KeepsTheStatusBelowTheLinesOnATerminal) {
  Screen screen(true);

  screen.display.show_status("10 %");
  screen.display.show_status("20 %");
  screen.display.add_lines(Display::Stream::Err, "a\n");
  screen.display.clear_status();
  screen.display.add_lines(Display::Stream::Out, "b\n");

  EXPECT_EQ(screen.read(),
            "\r\x1b[2K"
            "10 %\r\x1b[2K"
            "20 %\r\x1b[2K"
            "a\n20 %\r\x1b[2K"
            "b\n");
}

TEST(Display, CutsTheStatusToTheTerminal) {
  EXPECT_EQ(cut_to_columns("0123456789", 4), "0123");
  EXPECT_EQ(cut_to_columns("0123", 4), "0123");
  EXPECT_EQ(cut_to_columns("\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88", 2), "\xe2\x96\x88\xe2\x96\x88");
  EXPECT_EQ(cut_to_columns("\x1b[32mgreen\x1b[0m!", 5), "\x1b[32mgreen\x1b[0m\x1b[0m");
}

TEST(Display, WaitsForASlowReaderWithoutBlocking) {
  Screen screen(false);
  const std::string line(999, 'x');
  std::string all;
  for (int i = 0; i < 1000; ++i) {
    all += line + '\n';
  }

  screen.display.add_lines(Display::Stream::Out, all);
  screen.display.write_some();

  EXPECT_GE(screen.display.waiting_fd(), 0);
  EXPECT_GT(screen.display.waiting_bytes(), all.size() / 2);
  EXPECT_EQ(screen.read(), all);
}

TEST(Display, GoesOnWhenItsReaderHasGone) {
  os::ignore_signal(SIGPIPE);
  Screen screen(false);
  screen.display.add_lines(Display::Stream::Out, "a\n");
  screen.close();

  screen.display.write_some();
  screen.display.add_lines(Display::Stream::Out, "b\n");

  EXPECT_EQ(screen.display.waiting_fd(), -1);
  EXPECT_EQ(screen.display.waiting_bytes(), 0U);
}

}  // namespace
}  // namespace lockstep::agent
