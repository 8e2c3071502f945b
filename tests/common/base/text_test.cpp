// SPDX-License-Identifier: Apache-2.0
#include "common/base/text.h"

#include <gmock/gmock.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

TEST(Split, KeepsEmptyPieces) {
  EXPECT_THAT(split("a,b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split(",", ','), ElementsAre("", ""));
  EXPECT_THAT(split("a", ','), ElementsAre("a"));
  EXPECT_THAT(split("", ','), IsEmpty());
}

TEST(Join, PutsTheSeparatorBetween) {
  EXPECT_EQ(join(std::vector<std::string>{"a", "b"}, ", "), "a, b");
  EXPECT_EQ(join(std::vector<std::string>{}, ", "), "");
}

TEST(NameSome, CountsTheRest) {
  const std::vector<std::string> names = {"n1", "n2", "n3"};
  EXPECT_EQ(name_some(names, 3), "n1, n2, n3");
  EXPECT_EQ(name_some(names, 2), "n1, n2 and 1 more");
}

TEST(Plural, AddsAnSExceptForOne) {
  EXPECT_EQ(plural(0, "node"), "0 nodes");
  EXPECT_EQ(plural(1, "node"), "1 node");
  EXPECT_EQ(plural(3, "node"), "3 nodes");
  EXPECT_EQ(plural(1024, "node"), "1 024 nodes");
}

TEST(Trim, TakesBlanksAndLineEndsAway) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(ToLower, ChangesTheLettersOfAscii) {
  EXPECT_EQ(to_lower("DDP-2x4 \xc3\x84"), "ddp-2x4 \xc3\x84");
}

TEST(FormatTable, MakesColumnsAsWideAsTheirLongest) {
  const std::vector<std::vector<std::string>> rows = {{"job", "state"}, {"12_3", "-"}};
  EXPECT_EQ(format_table(rows), "job   state\n12_3  -\n");
  EXPECT_EQ(format_table({}), "");
}

TEST(QuoteForShell, LeavesPlainWordsAndProtectsOthers) {
  EXPECT_EQ(quote_for_shell("--lr=0.1"), "--lr=0.1");
  EXPECT_EQ(quote_for_shell("a b"), "'a b'");
  EXPECT_EQ(quote_for_shell(""), "''");
  EXPECT_EQ(quote_for_shell("it's $HOME"), "'it'\\''s $HOME'");
}

TEST(FindClosest, FindsWhatWasProbablyMeant) {
  const std::vector<std::string> words = {"run", "data", "--nproc-per-node", "--grace"};
  EXPECT_THAT(find_closest("rnu", words), Optional(std::string("run")));
  EXPECT_THAT(find_closest("dat", words), Optional(std::string("data")));
  EXPECT_THAT(find_closest("--nprocs-per-nod", words), Optional(std::string("--nproc-per-node")));
  EXPECT_THAT(find_closest("--garce", words), Optional(std::string("--grace")));
}

TEST(FindClosest, FindsNothingWhenNothingIsNear) {
  EXPECT_EQ(find_closest("train", std::vector<std::string>{"run", "data"}), std::nullopt);
  EXPECT_EQ(find_closest("x", std::vector<std::string>{}), std::nullopt);
}

TEST(FindInteger, TakesAWholeNumberAndNothingElse) {
  EXPECT_THAT(find_integer("42"), Optional(int64_t{42}));
  EXPECT_THAT(find_integer("-3"), Optional(int64_t{-3}));
  for (const char* text : {"", " 4", "4 ", "4.0", "0x4", "four", "99999999999999999999"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(find_integer(text), std::nullopt);
  }
}

TEST(Format, WritesSizesTimesAndCountsForPeople) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(12ULL << 20), "12.0 MiB");
  EXPECT_EQ(format_duration(0.44), "0.4 s");
  EXPECT_EQ(format_duration(72), "1 min 12 s");
  EXPECT_EQ(format_duration(7500), "2 h 05 min");
  EXPECT_EQ(format_count(12345678), "12 345 678");
  EXPECT_EQ(format_count(-1234), "-1 234");
  EXPECT_EQ(format_count(0), "0");
}

}  // namespace
}  // namespace lockstep
