// SPDX-License-Identifier: Apache-2.0
#include "launcher/config/yaml.h"

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
