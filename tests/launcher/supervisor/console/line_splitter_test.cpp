// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/console/line_splitter.h"

#include <gmock/gmock.h>

namespace lockstep::supervisor {
namespace {

struct Seen {
  std::string lines;
  std::vector<std::string> statuses;
};

// Feeds `text` in pieces of `step` bytes.
Seen feed(const std::string& text, size_t step) {
  LineSplitter splitter;
  Seen seen;
  for (size_t at = 0; at < text.size(); at += step) {
    const auto output = splitter.feed(std::string_view(text).substr(at, step));
    seen.lines += output.lines[0];
    seen.lines += output.lines[1];
    if (output.status) {
      seen.statuses.push_back(*output.status);
    }
  }
  seen.lines += splitter.finish();
  return seen;
}

TEST(LineSplitter, KeepsLinesAndDropsStatusLinesHoweverTheBytesCome) {
  struct Case {
    std::string text;
    std::string lines;
  };
  const std::vector<Case> cases = {
      {"a\nb\n", "a\nb\n"},
      {"a\n\n\nb", "a\n\n\nb"},
      {"no end", "no end"},
      {"", ""},
      {"windows\r\nlines\r\n", "windows\r\nlines\r\n"},
      {"10 %\r20 %\rdone\n", "done\n"},
      {"\r10 %\r20 %\r100 %\n", "100 %\n"},
      {"10 %\r20 %\r", ""},
      {"a\n10 %\rb\n20 %\r\nc", "a\nb\n20 %\r\nc"},
      {"\r\r\r\n", "\r\n"},
      {std::string("zero \0 byte\n", 12), std::string("zero \0 byte\n", 12)},
  };
  for (const Case& one : cases) {
    for (const size_t step : {1, 2, 3, 5, 1000}) {
      SCOPED_TRACE(::testing::PrintToString(one.text) + " by " + std::to_string(step));
      EXPECT_EQ(feed(one.text, step).lines, one.lines);
    }
  }
}

TEST(LineSplitter, ReportsTheNewestStatusOfEachPiece) {
  EXPECT_THAT(feed("10 %\r20 %\r", 1000).statuses, ::testing::ElementsAre("20 %"));
  EXPECT_THAT(feed("10 %\r20 %\r", 5).statuses, ::testing::ElementsAre("10 %", "20 %"));
}

TEST(LineSplitter, ShowsABarThatIsDrawnWithTheReturnFirst) {
  EXPECT_THAT(feed("\r10 %\r20 %", 5).statuses, ::testing::ElementsAre("10 %", "20 %"));
}

TEST(LineSplitter, LosesNothingOfALineThatIsTooLong) {
  const std::string text(3 * LineSplitter::kLongestLine + 17, 'x');

  EXPECT_EQ(feed(text + "\nend\n", 1 << 16).lines, text + "\nend\n");
}

TEST(LineSplitter, CopiesOnlyTornLines) {
  LineSplitter splitter;
  const std::string first = "whole\nto";
  const std::string second = "rn\nwhole\nend";

  EXPECT_EQ(splitter.feed(first).lines[1].data(), first.data());
  const auto output = splitter.feed(second);

  EXPECT_EQ(output.lines[0], "torn\n");
  EXPECT_EQ(output.lines[1], "whole\n");
  EXPECT_EQ(output.lines[1].data(), second.data() + 3);
}

TEST(LineSplitter, KeepsTheOrderAroundAHugeLine) {
  const std::string text = "first\n" + std::string(3 * LineSplitter::kLongestLine, 'x') + "\nend";

  EXPECT_EQ(feed(text, 4 * LineSplitter::kLongestLine).lines, text);
  EXPECT_EQ(feed(text, 2 * LineSplitter::kLongestLine).lines, text);
}

}  // namespace
}  // namespace lockstep::supervisor
