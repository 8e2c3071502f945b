// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/console/display.h"

#include <gmock/gmock.h>
#include <thread>

#include "common/os/pipe.h"

namespace lockstep::supervisor {
namespace {

using std::chrono::milliseconds;

// Both streams write to one pipe, as on one terminal.
class Screen {
 public:
  explicit Screen(OutputBuffer::Kind kind, Display::Options options = {})
      : pipe_(os::make_pipe()),
        display({.fd = pipe_.in.number(), .kind = kind},
                {.fd = pipe_.in.number(), .kind = kind},
                options) {
    os::set_nonblocking(pipe_.out.number());
  }

  // The output so far.
  std::string read() {
    display.write_some();
    std::string text;
    while (os::read_some(pipe_.out.number(), text, 1 << 16) == os::ReadResult::Some) {
      display.write_some();
    }
    return text;
  }

  // The complete output.
  std::string read_rest() {
    display.flush();
    return read();
  }

 private:
  os::Pipe pipe_;

 public:
  Display display;
};

TEST(Display, KeepsTheOrderOfBothStreams) {
  Screen screen(OutputBuffer::Kind::Pipe);

  screen.display.take_lines(0, Stream::Out, "a\n");
  screen.display.take_lines(0, Stream::Err, "b\n");
  screen.display.take_lines(0, Stream::Out, "c\n");

  EXPECT_EQ(screen.read(), "a\nb\nc\n");
  EXPECT_EQ(screen.display.waiting_fds(), (std::array<int, 2>{-1, -1}));
}

TEST(Display, MarksTheLinesOfSeveralWorkersAndCollapsesThem) {
  Screen screen(OutputBuffer::Kind::Pipe, {.world_size = 3});

  screen.display.take_lines(0, Stream::Out, "hello\nI am 0\n\nend");
  screen.display.take_lines(2, Stream::Out, "hello\nI am 2\n\n");
  screen.display.take_lines(1, Stream::Out, "hello\n");

  EXPECT_EQ(screen.read(), "[0-2]: hello\n");
  EXPECT_EQ(screen.read_rest(), "[0]: I am 0\n[2]: I am 2\n[0,2]: \n[0]: end\n");
}

TEST(Display, ShowsALineWithoutTwinsAfterAMoment) {
  // On a busy machine the moment may be over before the first read; then the next screen counts.
  std::string early = "not read";
  for (int turn = 0; turn < 20 && !early.empty(); ++turn) {
    Screen screen(OutputBuffer::Kind::Pipe, {.world_size = 2});
    EXPECT_EQ(screen.display.time_to_next(), std::nullopt);

    screen.display.take_lines(1, Stream::Err, "alone\n");

    early = screen.read();
    if (const auto wait = screen.display.time_to_next()) {
      EXPECT_LE(*wait, milliseconds(100));
      std::this_thread::sleep_for(*wait);
    }
    EXPECT_EQ(early + screen.read(), "[1]: alone\n");
  }
  EXPECT_EQ(early, "");
}

TEST(Display, DoesNotWaitForTwinsOfAFlood) {
  Screen screen(OutputBuffer::Kind::Pipe, {.world_size = 2});
  const std::string line(1000, 'x');
  screen.display.take_lines(0, Stream::Out, "first\n");

  std::string flood;
  for (int i = 0; i < 300; ++i) {
    flood += line + "\n";
  }
  screen.display.take_lines(0, Stream::Out, flood);

  const std::string text = screen.read();
  EXPECT_EQ(text.substr(0, 16), "[0]: first\n[0]: ");
  EXPECT_EQ(text.size(), 11 + flood.size() + 300 * 5);
}

TEST(Display, SpeaksForItselfBehindTheWorkers) {
  Screen screen(OutputBuffer::Kind::Pipe, {.world_size = 2});

  screen.display.take_lines(1, Stream::Out, "oh\n");
  screen.display.say("rank 1 exited with code 3");
  screen.display.show("+-- box\n+--\n");

  EXPECT_EQ(screen.read(), "[1]: oh\nlockstep: rank 1 exited with code 3\n+-- box\n+--\n");
}

TEST(Display, ShowsNoStatusWhereThereIsNoTerminal) {
  Screen screen(OutputBuffer::Kind::Pipe);

  screen.display.take_status(0, "10 %");
  screen.display.take_lines(0, Stream::Out, "a\n");
  screen.display.clear_status();

  EXPECT_EQ(screen.read(), "a\n");
}

TEST(Display, KeepsTheStatusBelowTheLinesOnATerminal) {
  Screen screen(OutputBuffer::Kind::Terminal);

  screen.display.take_status(0, "10 %");
  screen.display.take_status(0, "20 %");
  screen.display.take_lines(0, Stream::Err, "a\n");
  screen.display.say("b");
  screen.display.clear_status();
  screen.display.take_lines(0, Stream::Out, "c\n");

  EXPECT_EQ(screen.read(),
            "\r\x1b[2K"
            "10 %\r\x1b[2K"
            "20 %\r\x1b[2K"
            "a\n20 %\r\x1b[2K"
            "lockstep: b\n20 %\r\x1b[2K"
            "c\n");
}

TEST(Display, ShowsTheBarOfTheLowestRankThatDrawsOne) {
  Screen screen(OutputBuffer::Kind::Terminal, {.world_size = 4});

  screen.display.take_status(0, "10 %");
  screen.display.take_status(2, "11 %");
  screen.display.take_status(0, "12 %");

  EXPECT_EQ(screen.read(), "\r\x1b[2K[0]: 10 %\r\x1b[2K[0]: 12 %");
}

TEST(Display, ColoursThePrefixOnATerminalOnly) {
  const Display::Options options{.world_size = 2, .has_colours = true};
  Screen terminal(OutputBuffer::Kind::Terminal, options);
  Screen pipe(OutputBuffer::Kind::Pipe, options);

  for (Screen* screen : {&terminal, &pipe}) {
    screen->display.take_lines(0, Stream::Out, "both\none\n");
    screen->display.take_lines(1, Stream::Out, "both\n");
  }

  EXPECT_EQ(terminal.read_rest(), "\x1b[2m[0-1]: \x1b[0mboth\n\x1b[36m[0]: \x1b[0mone\n");
  EXPECT_EQ(pipe.read_rest(), "[0-1]: both\n[0]: one\n");
}

TEST(Display, DoesNotHoldStderrBackForASlowReaderOfStdout) {
  const os::Pipe out = os::make_pipe();
  const os::Pipe err = os::make_pipe();
  Display display({.fd = out.in.number()}, {.fd = err.in.number()}, {});
  const std::string much(1 << 20, 'x');

  display.take_lines(0, Stream::Out, much);
  display.say("still here");
  display.write_some();

  std::string text;
  os::read_some(err.out.number(), text, 100);
  EXPECT_EQ(text, "lockstep: still here\n");
  EXPECT_GE(display.waiting_fds()[0], 0);
  EXPECT_EQ(display.waiting_fds()[1], -1);
  EXPECT_GT(display.waiting_bytes(), much.size() / 2);
}

TEST(Display, ForgetsEverythingOnRequest) {
  Screen screen(OutputBuffer::Kind::Pipe);
  screen.display.take_lines(0, Stream::Out, std::string(1 << 20, 'x'));

  screen.display.give_up();
  screen.display.say("discarded");

  EXPECT_EQ(screen.display.waiting_bytes(), 0U);
  EXPECT_EQ(screen.read(), "");
}

TEST(Display, CutsTheStatusToTheTerminal) {
  EXPECT_EQ(cut_to_columns("0123456789", 4), "0123");
  EXPECT_EQ(cut_to_columns("0123", 4), "0123");
  EXPECT_EQ(cut_to_columns("\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88", 2), "\xe2\x96\x88\xe2\x96\x88");
  EXPECT_EQ(cut_to_columns("\x1b[32mgreen\x1b[0m!", 5), "\x1b[32mgreen\x1b[0m\x1b[0m");
}

}  // namespace
}  // namespace lockstep::supervisor
