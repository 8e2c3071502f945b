// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/log_page.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "common/os/files.h"

namespace lockstep::monitor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogPages : public ::testing::Test {
 protected:
  void write(const std::string& text) const { os::write_file(path(), text); }
  std::filesystem::path path() const { return directory_.path() / "rank-0.log"; }

  static std::vector<std::string> texts(const LogPage& page) {
    std::vector<std::string> texts;
    for (const LogLine& line : page.lines) {
      texts.push_back(line.text);
    }
    return texts;
  }

 private:
  os::TemporaryDirectory directory_{"log-page-test"};
};

TEST_F(LogPages, BeginWithTheNewestLines) {
  write("one\ntwo\nthree\n");

  const LogPage page = read_log(path(), {.search = "", .after = {}, .max_lines = 2});

  EXPECT_THAT(
      page.lines,
      ElementsAre(LogLine{.offset = 4, .text = "two"}, LogLine{.offset = 8, .text = "three"}));
  EXPECT_EQ(page.next, 14U);
  EXPECT_EQ(page.size_bytes, 14U);
}

TEST_F(LogPages, GoOnWhereTheLastOneEndedAndLeaveHalfALine) {
  write("one\ntwo\nthr");

  const LogPage page = read_log(path(), {.search = "", .after = 4});
  EXPECT_THAT(texts(page), ElementsAre("two"));
  EXPECT_EQ(page.next, 8U);

  write("one\ntwo\nthree\r\n");
  EXPECT_THAT(texts(read_log(path(), {.search = "", .after = page.next})), ElementsAre("three"));
}

TEST_F(LogPages, HaveTheLinesWithAWordInAnyCase) {
  write("Loss 1\nother\nloss 2\nLOSS 3\n");

  EXPECT_THAT(texts(read_log(path(), {.search = "loss", .after = {}})),
              ElementsAre("Loss 1", "loss 2", "LOSS 3"));
  EXPECT_THAT(texts(read_log(path(), {.search = "loss", .after = 7, .max_lines = 1})),
              ElementsAre("loss 2"));
  EXPECT_THAT(texts(read_log(path(), {.search = ".*", .after = {}})), IsEmpty());
}

TEST_F(LogPages, OfALongFileAreReadFromNearItsEnd) {
  std::string text;
  for (int line = 0; line < 1000; ++line) {
    text += fmt::format("line {}\n", line);
  }
  write(text);

  const LogPage page =
      read_log(path(), {.search = "line", .after = {}, .max_lines = 500, .max_bytes = 20});

  EXPECT_THAT(texts(page), ElementsAre("line 998", "line 999"));
  EXPECT_GT(page.searched_from, 0U);
}

TEST_F(LogPages, AreEmptyWithoutAFileAndBeginAnewWhereItWasCut) {
  EXPECT_THAT(read_log(path(), {}).lines, IsEmpty());

  write("new\n");
  EXPECT_THAT(texts(read_log(path(), {.search = "", .after = 100})), ElementsAre("new"));
}

TEST_F(LogPages, CutAVeryLongLine) {
  write(std::string(100'000, 'x') + "\nend\n");

  const LogPage page = read_log(path(), {});

  ASSERT_EQ(page.lines.size(), 2U);
  EXPECT_LT(page.lines[0].text.size(), 5000U);
  EXPECT_EQ(page.lines[1].offset, 100'001U);
}

}  // namespace
}  // namespace lockstep::monitor
