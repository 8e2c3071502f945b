// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/console/output_buffer.h"

#include <csignal>
#include <gmock/gmock.h>

#include "common/base/text.h"
#include "common/os/files.h"
#include "common/os/pipe.h"
#include "common/os/signals.h"
#include "support/golden.h"

namespace lockstep::supervisor {
namespace {

using ::testing::EndsWith;

class PipedOutlet : public ::testing::Test {
 protected:
  PipedOutlet() : outlet(pipe.in.number(), OutputBuffer::Kind::Pipe) {
    os::set_nonblocking(pipe.out.number());
  }

  std::string read(size_t maximum) {
    std::string text;
    for (;;) {
      outlet.write_some();
      if (text.size() >= maximum ||
          os::read_some(pipe.out.number(),
                        text,
                        std::min(maximum - text.size(), size_t{1} << 16)) != os::ReadResult::Some) {
        return text;
      }
    }
  }

  std::string read_all() { return read(size_t{1} << 30); }

  os::Pipe pipe = os::make_pipe();
  OutputBuffer outlet;
};

TEST_F(PipedOutlet, MarksEachLineAndEndsTheLast) {
  outlet.add_lines("[1]: ", "a\n\nb");
  outlet.add_lines("", "c\nd");
  outlet.add_lines("[1]: ", "");

  EXPECT_EQ(read_all(), "[1]: a\n[1]: \n[1]: b\nc\nd\n");
  EXPECT_EQ(outlet.waiting_fd(), -1);
}

TEST_F(PipedOutlet, LeavesTheFlagsOfItsDescriptorAlone) {
  const std::string much(1 << 20, 'x');

  outlet.add_lines("", much);
  outlet.write_some();

  EXPECT_GT(outlet.waiting_bytes(), 0U);
  EXPECT_NE(outlet.waiting_fd(), pipe.in.number());
}

TEST_F(PipedOutlet, DropsAndCountsWhatASlowReaderCannotTake) {
  constexpr int kLines = 30000;
  const std::string line(1023, 'x');
  size_t max_waiting = 0;
  for (int i = 0; i < kLines; ++i) {
    outlet.add_lines("", line + '\n');
    outlet.write_some();
    max_waiting = std::max(max_waiting, outlet.waiting_bytes());
  }
  EXPECT_LE(max_waiting, OutputBuffer::kMaxWaitingBytes + 1024);

  std::string text = read(OutputBuffer::kMaxWaitingBytes / 2 + (size_t{1} << 20));
  outlet.add_lines("", "the end\n");
  text += read_all();

  const size_t shown = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) - 2;
  EXPECT_LT(shown, size_t{kLines});
  EXPECT_THAT(
      text,
      EndsWith("\nlockstep: " + std::to_string(kLines - shown) + " lines (" +
               format_bytes((kLines - shown) * 1024) +
               ") not shown: the reader is too slow; the log files are complete\nthe end\n"));
}

TEST_F(PipedOutlet, ReportsAtTheEndWhatWasDropped) {
  outlet.add(std::string(OutputBuffer::kMaxWaitingBytes + 1, 'x'));
  outlet.add_lines("", "one\n");

  outlet.report_dropped();

  EXPECT_THAT(
      read_all(),
      EndsWith("xlockstep: 1 line (4 B) not shown: the reader is too slow; the log files are "
               "complete\n"));
}

TEST_F(PipedOutlet, ForgetsAllWhenItsReaderHasGone) {
  os::ignore_signal(SIGPIPE);
  outlet.add_lines("", "a\n");
  pipe.out.close();

  outlet.write_some();
  outlet.add_lines("", "b\n");

  EXPECT_TRUE(outlet.has_no_reader());
  EXPECT_EQ(outlet.waiting_fd(), -1);
  EXPECT_EQ(outlet.waiting_bytes(), 0U);
}

TEST(OutputBuffer, NeverDropsWhatGoesToAFile) {
  const os::TemporaryDirectory directory;
  const os::Fd file = os::open_for_append(directory.path() / "file");
  ASSERT_EQ(OutputBuffer::kind_of(file.number()), OutputBuffer::Kind::File);
  OutputBuffer outlet(file.number(), OutputBuffer::Kind::File);
  const std::string line(999, 'x');

  for (int i = 0; i < 20000; ++i) {
    outlet.add_lines("[0]: ", line + '\n');
    ASSERT_LT(outlet.waiting_bytes(), size_t{1} << 20);
  }
  outlet.write_some();

  EXPECT_EQ(std::filesystem::file_size(directory.path() / "file"), 20000U * 1005);
}

TEST(OutputBuffer, KnowsThatTheNullDeviceHasNoReader) {
  const os::Fd null = os::open_for_append("/dev/null");

  EXPECT_EQ(OutputBuffer::kind_of(null.number()), OutputBuffer::Kind::NoReader);
}

}  // namespace
}  // namespace lockstep::supervisor
