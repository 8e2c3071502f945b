// SPDX-License-Identifier: Apache-2.0
#include "launcher/config/yaml.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::config {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    parse_yaml(text, "job.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return error.what();
  }
  return "";
}

TEST(ParseYaml, KeepsTextsAndTheirPlaces) {
  const TreeNode map = parse_yaml("a: 1\nlist: [x, 'y z']\nm:\n  inner: on\nempty:\n", "job.yaml");

  ASSERT_EQ(map.kind, TreeNode::Kind::Map);
  EXPECT_EQ(map.find("a")->text, "1");
  EXPECT_EQ(describe(map.find("a")->position), "job.yaml:1:4");
  EXPECT_EQ(map.find("list")->items.at(1).text, "y z");
  EXPECT_EQ(describe(map.find("m")->find("inner")->position), "job.yaml:4:10");
  EXPECT_EQ(map.find("empty")->kind, TreeNode::Kind::Null);
  EXPECT_EQ(map.find("other"), nullptr);
}

TEST(ParseYaml, AdvisesOnTheFaultThatIsThere) {
  EXPECT_THAT(refusal("a: 1\n\tb: 2\n"), HasSubstr("use spaces instead of tabs"));
  EXPECT_THAT(refusal("a: [1, 2\n"), HasSubstr("close the list with ']'"));
  EXPECT_THAT(refusal("a: {b: 2\n"), HasSubstr("close it with '}'"));
  EXPECT_THAT(refusal("a: b: c\n"), HasSubstr("quote values that contain"));
}

TEST(ParseYaml, RefusesASecondPartThatWouldNotBeRead) {
  EXPECT_THAT(refusal("a: 1\n---\nb: 2\n"), HasSubstr("more than one document"));
  EXPECT_EQ(refusal("---\na: 1\n"), "");
  EXPECT_EQ(refusal(""), "");
}

TEST(ParseYaml, ReadsJsonToo) {
  const TreeNode map = parse_yaml(R"({"zero": {"stage": 2}, "names": ["a", "b"]})", "ds.json");

  EXPECT_EQ(map.find("zero")->find("stage")->text, "2");
  EXPECT_EQ(map.find("names")->items.size(), 2U);
}

TEST(ParseYaml, SaysWhereAFileIsWrong) {
  EXPECT_THAT(refusal("a: [1, 2\nb: 3\n"), HasSubstr("job.yaml:2:"));
  EXPECT_THAT(refusal("a: 1\n\tb: 2\n"), HasSubstr("job.yaml:2:1"));
  EXPECT_THAT(
      refusal("a: 1\nb: 2\na: 3\n"),
      ::testing::AllOf(
          HasSubstr("duplicate key 'a'"), HasSubstr("job.yaml:3:1"), HasSubstr("job.yaml:1:1")));
  EXPECT_THAT(refusal("[a, b]: 1\n"), HasSubstr("a key must be one word"));
}

TEST(ParseYaml, RefusesWhatIsNestedWithoutEnd) {
  EXPECT_THAT(refusal(std::string(60, '[') + std::string(60, ']')), HasSubstr("32 levels"));
  EXPECT_EQ(refusal(std::string(32, '[') + std::string(32, ']')), "");
  // Each line adds 20 levels to those of the line before.
  const std::string open(20, '[');
  const std::string close(20, ']');
  EXPECT_THAT(refusal("a: &a " + open + close + "\nb: &b " + open + "*a" + close + "\n"),
              HasSubstr("32 levels"));
}

TEST(ParseYaml, RefusesACommaOutsideOfBrackets) {
  for (const char* text : {",", "{\"num_nodes\": 2},", "\"a\", 2", "a: 1\n...\n,"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(refusal(text), HasSubstr("cannot read job.yaml: "));
  }
}

TEST(ParseYaml, ExpandsAliases) {
  const TreeNode map = parse_yaml("a: &x {b: [1, 2]}\nc: *x\nd: [*x, &y 7, *y]\n", "job.yaml");

  EXPECT_EQ(map.find("c")->find("b")->items.at(1).text, "2");
  EXPECT_EQ(describe(map.find("c")->position), "job.yaml:1:4") << "where the value is written";
  EXPECT_EQ(map.find("d")->items.at(0).find("b")->items.size(), 2U);
  EXPECT_EQ(map.find("d")->items.at(2).text, "7");
  EXPECT_THAT(refusal("a: &x [*x]\n"), HasSubstr("an alias refers to the value that contains it"));
  EXPECT_THAT(refusal("a: *x\n"), HasSubstr("cannot read job.yaml"));
}

// 10 values, repeated ten times on each of ten levels.
TEST(ParseYaml, RefusesAliasesThatGrowWithoutEnd) {
  std::string text = "x0: &a0 [l,l,l,l,l,l,l,l,l,l]\n";
  for (int level = 1; level < 10; ++level) {
    text += fmt::format("x{0}: &a{0} [", level);
    for (int i = 0; i < 10; ++i) {
      text += fmt::format("{}*a{}", i == 0 ? "" : ",", level - 1);
    }
    text += "]\n";
  }
  EXPECT_THAT(refusal(text), HasSubstr("it has more than 100 000 values"));

  // 10,000 values that twenty anchors contain.
  std::string nested = "l";
  for (int i = 1; i < 10'000; ++i) {
    nested += ",l";
  }
  for (int level = 0; level < 20; ++level) {
    nested = fmt::format("&a{} [{}]", level, nested);
  }
  EXPECT_THAT(refusal("x: " + nested), HasSubstr("it has more than 100 000 values"));
}

TEST(ParseYaml, RefusesAFileThatIsTooLarge) {
  EXPECT_THAT(refusal("a: " + std::string(1 << 20, 'b')), HasSubstr("it is larger than 1.0 MiB"));
}

TEST(ParseYaml, TakesNoLongerThanItsSize) {
  std::string text;
  for (int key = 0; key < 60'000; ++key) {
    text += fmt::format("k{}: 1\n", key);
  }
  EXPECT_EQ(parse_yaml(text, "job.yaml").entries.size(), 60'000U);
}

TEST(ParseYaml, AnEmptyFileIsNothing) {
  EXPECT_EQ(parse_yaml("# only words\n", "job.yaml").kind, TreeNode::Kind::Null);
}

TEST(RequireKnown, NamesPlaceAndClosestKey) {
  const TreeNode map = parse_yaml("time: 1\nnum_node: 2\n", "job.yaml");
  const std::vector<std::string> known = {"time", "num_nodes", "partition"};
  try {
    require_known(map, known);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot read job.yaml: unknown key 'num_node'\n"
              "  position: job.yaml:2:1\n"
              "  try:      num_nodes");
  }
}

TEST(RequireKnown, NamesAllWhereNoneIsClose) {
  const TreeNode map = parse_yaml("zzzzzzzz: 2\n", "job.yaml");
  const std::vector<std::string> known = {"time", "partition"};
  try {
    require_known(map, known);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("available: time, partition"));
  }
}

}  // namespace
}  // namespace lockstep::config
