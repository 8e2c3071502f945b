// SPDX-License-Identifier: Apache-2.0
#include "common/os/pipe.h"

#include <csignal>
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "common/os/signals.h"
#include "common/os/terminal.h"
#include "lockstep/error.h"
#include "support/golden.h"

namespace lockstep::os {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Pipe, CarriesBytesAndThenTheEnd) {
  Pipe pipe = make_pipe();
  set_nonblocking(pipe.out.number());
  std::string text;
  EXPECT_EQ(read_some(pipe.out.number(), text, 100), ReadResult::Nothing);

  EXPECT_TRUE(write_all(pipe.in.number(), "hello"));
  pipe.in.close();

  EXPECT_EQ(read_some(pipe.out.number(), text, 3), ReadResult::Some);
  EXPECT_EQ(read_some(pipe.out.number(), text, 100), ReadResult::Some);
  EXPECT_EQ(text, "hello");
  EXPECT_EQ(read_some(pipe.out.number(), text, 100), ReadResult::End);
}

TEST(Pipe, ReportsWhetherItHasAReader) {
  Pipe pipe = make_pipe();
  EXPECT_TRUE(has_reader(pipe.in.number()));

  pipe.out.close();

  EXPECT_FALSE(has_reader(pipe.in.number()));
  const TemporaryDirectory directory;
  EXPECT_TRUE(has_reader(open_for_append(directory.path() / "file").number()));
}

TEST(Pipe, ReportsToTheWriterThatItsReaderIsGone) {
  ignore_signal(SIGPIPE);
  Pipe pipe = make_pipe();
  pipe.out.close();

  EXPECT_FALSE(write_all(pipe.in.number(), "hello"));
}

TEST(WaitFor, ReportsTheReadyOnesAndStopsAtTheTimeout) {
  const Pipe quiet = make_pipe();
  const Pipe busy = make_pipe();
  write_all(busy.in.number(), "x");
  std::array watches = {Watch{.fd = quiet.out.number()},
                        Watch{.fd = busy.out.number()},
                        Watch{.fd = quiet.in.number(), .for_write = true},
                        Watch{.fd = -1}};

  wait_for(watches, std::nullopt);
  EXPECT_FALSE(watches[0].is_ready);
  EXPECT_TRUE(watches[1].is_ready);
  EXPECT_TRUE(watches[2].is_ready);
  EXPECT_FALSE(watches[3].is_ready);

  wait_for(std::span(watches).first(1), std::chrono::milliseconds(1));
  EXPECT_FALSE(watches[0].is_ready);
}

TEST(MemoryFile, IsReadFromItsBeginning) {
  const Fd file = make_memory_file("an offer");
  std::string text;

  read_some(file.number(), text, 100);

  EXPECT_EQ(text, "an offer");
  EXPECT_TRUE(is_regular_file(file.number()));
  EXPECT_FALSE(is_terminal(file.number()));
  EXPECT_EQ(find_terminal_columns(file.number()), std::nullopt);
}

TEST(OpenForAppend, AddsToWhatIsThere) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "log";
  write_all(open_for_append(path).number(), "one\n");
  write_all(open_for_append(path).number(), "two\n");

  EXPECT_EQ(lockstep::testing::read_text(path), "one\ntwo\n");
  EXPECT_THAT([&] { open_for_append(directory.path() / "no" / "log"); },
              ThrowsMessage<Error>(HasSubstr("No such file or directory")));
}

TEST(Fd, GivesUpWhatItIsMovedFrom) {
  Pipe pipe = make_pipe();
  const int number = pipe.in.number();

  const Fd other = std::move(pipe.in);

  EXPECT_EQ(other.number(), number);
  EXPECT_FALSE(pipe.in.is_open());  // NOLINT: what is asked is the state after the move
}

}  // namespace
}  // namespace lockstep::os
