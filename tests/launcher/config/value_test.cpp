// SPDX-License-Identifier: Apache-2.0
#include "launcher/config/value.h"

#include <gmock/gmock.h>

namespace lockstep::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::ThrowsMessage;

TreeNode node(const std::string& yaml) {
  return *parse_yaml("key: " + yaml, "job.yaml").find("key");
}

TEST(ReadWhole, TakesNumbersWithinBounds) {
  EXPECT_EQ(read_whole(node("4"), "num_nodes", {.minimum = 1}), 4);
  EXPECT_THAT([] { read_whole(node("0"), "num_nodes", {.minimum = 1, .maximum = 9}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("invalid value '0' for num_nodes"),
                                         HasSubstr("expected: a whole number from 1 to 9"),
                                         HasSubstr("'0'  (job.yaml:1:6)"))));
  EXPECT_THAT([] { read_whole(node("two"), "num_nodes", {}); },
              ThrowsMessage<Error>(HasSubstr("'two'")));
  EXPECT_THAT([] { read_whole(node("[2]"), "num_nodes", {}); },
              ThrowsMessage<Error>(HasSubstr("found:    a list")));
  EXPECT_THAT([] { read_whole(node("1.5"), "num_nodes", {}); },
              ThrowsMessage<Error>(HasSubstr("'1.5'")));
}

TEST(ReadFlag, TakesTheUsualWords) {
  EXPECT_TRUE(read_flag(node("true"), "exclusive"));
  EXPECT_TRUE(read_flag(node("Yes"), "exclusive"));
  EXPECT_FALSE(read_flag(node("off"), "exclusive"));
  EXPECT_THAT([] { read_flag(node("maybe"), "exclusive"); },
              ThrowsMessage<Error>(HasSubstr("expected: true or false")));
  EXPECT_THAT([] { read_flag(node(""), "exclusive"); },
              ThrowsMessage<Error>(HasSubstr("found:    nothing")));
}

TEST(ReadText, TakesOneValue) {
  EXPECT_EQ(read_text(node("00:10:00"), "time"), "00:10:00");
  EXPECT_THAT([] { read_text(node("{a: b}"), "time"); }, ThrowsMessage<Error>(HasSubstr("a map")));
}

TEST(ReadList, TakesListsAndTextsWithCommas) {
  EXPECT_THAT(read_list(node("[1, 2]"), "nodes"), ElementsAre("1", "2"));
  EXPECT_THAT(read_list(node("\"1, 2,4\""), "nodes"), ElementsAre("1", "2", "4"));
  EXPECT_THAT([] { read_list(node("[[1]]"), "nodes"); }, ThrowsMessage<Error>(HasSubstr("single")));
}

TEST(ReadLines, CutsNothing) {
  EXPECT_THAT(read_lines(node("'--a=1,2'"), "sbatch"), ElementsAre("--a=1,2"));
  EXPECT_THAT(read_lines(node("[--a, --b]"), "sbatch"), ElementsAre("--a", "--b"));
}

TEST(ReadPairs, TakesMapsAndLists) {
  EXPECT_THAT(read_pairs(node("{A: 1, B: }"), "env"), ElementsAre(Pair("A", "1"), Pair("B", "")));
  EXPECT_THAT(read_pairs(node("[A=1, 'B=x=y']"), "env"),
              ElementsAre(Pair("A", "1"), Pair("B", "x=y")));
  EXPECT_THAT([] { read_pairs(node("[A]"), "env"); },
              ThrowsMessage<Error>(HasSubstr("NAME=VALUE")));
  EXPECT_THAT([] { read_pairs(node("{A: [1]}"), "env"); },
              ThrowsMessage<Error>(HasSubstr("env.A")));
}

}  // namespace
}  // namespace lockstep::config
