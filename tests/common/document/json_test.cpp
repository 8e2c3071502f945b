// SPDX-License-Identifier: Apache-2.0
#include "common/document/json.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::document {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_json(text, "ds.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return error.what();
  }
  return "";
}

TEST(ParseJson, KeepsTypesAndThePlacesOfKeys) {
  const TreeNode root =
      parse_json("{\n  \"a\": 5e8,\n  \"b\": {\"c\": [0.9, true],\n   \"d\": null}\n}", "ds.json");

  ASSERT_EQ(root.kind, TreeNode::Kind::Map);
  EXPECT_EQ(root.find("a")->kind, TreeNode::Kind::Whole);
  EXPECT_EQ(root.find("a")->whole, 500'000'000);
  EXPECT_EQ(root.find("a")->position, (Position{"ds.json", 2, 3}));
  const TreeNode* b = root.find("b");
  EXPECT_EQ(b->position, (Position{"ds.json", 3, 3}));
  EXPECT_EQ(b->find("c")->items.at(0).number, 0.9);
  EXPECT_EQ(b->find("c")->position, (Position{"ds.json", 3, 9}));
  EXPECT_EQ(b->entries.at(1).value.position, (Position{"ds.json", 4, 4}));
  EXPECT_EQ(b->find("d")->kind, TreeNode::Kind::Null);
  EXPECT_EQ(b->find("e"), nullptr);
}

TEST(ParseJson, SaysWhereAFileIsWrongAndWhatWasExpected) {
  EXPECT_EQ(refusal("{\n  \"a\": 1\n  \"b\": 2\n}"),
            "cannot read ds.json: unexpected string literal; expected '}'\n"
            "  position: ds.json:3:3");
  EXPECT_EQ(refusal("{\"a\": "),
            "cannot read ds.json: unexpected end of input; expected '[', '{', or a literal\n"
            "  position: ds.json:1:7");
  EXPECT_EQ(refusal("[1, 2"),
            "cannot read ds.json: unexpected end of input; expected ']'\n"
            "  position: ds.json:1:6");
}

TEST(ParseJson, AdvisesOnTheFaultThatIsThere) {
  EXPECT_EQ(refusal("{\n  \"a\": 1,\n}"),
            "cannot read ds.json: unexpected '}'; expected string literal\n"
            "  position: ds.json:3:1\n"
            "  try:      remove the comma after the last entry");
  EXPECT_THAT(refusal("{'a': 1}"),
              ::testing::AllOf(::testing::HasSubstr("ds.json:1:2"),
                               ::testing::HasSubstr("try:      use double quotes: \"...\"")));
  EXPECT_THAT(refusal("{\"a\": True}"),
              ::testing::AllOf(::testing::HasSubstr("ds.json:1:7"),
                               ::testing::HasSubstr("try:      write true, false or null")));
}

TEST(ParseJson, RefusesComments) {
  for (const char* text : {"{\n  // batch\n  \"a\": 1}", "{\n  /* b */ \"a\": 1}", "{\n  # b\n}"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(
        refusal(text),
        ::testing::AllOf(::testing::HasSubstr("position: ds.json:2:3"),
                         ::testing::HasSubstr("try:      remove the comment: JSON has none")));
  }
}

TEST(ParseJson, RefusesAKeyThatIsThereTwiceWithItsPath) {
  EXPECT_EQ(refusal("{\"zero\": {\"stage\": 1,\n \"stage\": 2}}"),
            "cannot read ds.json: duplicate key 'zero.stage'\n"
            "  position: ds.json:2:2\n"
            "  first:    ds.json:1:11\n"
            "  try:      remove one of them");
  // The same name in two sections is allowed.
  EXPECT_EQ(refusal(R"({"a": {"x": 1}, "b": {"x": 1}})"), "");
}

TEST(ParseJson, RefusesNumbersBeyondADouble) {
  EXPECT_THAT(refusal("{\"a\": 1e999}"), ::testing::HasSubstr("position: ds.json:1:7"));
}

TEST(ParseJson, RefusesAnEmptyFileAndOneNestedWithoutEnd) {
  EXPECT_THAT(refusal(" \n"), ::testing::HasSubstr("cannot read ds.json: the file is empty"));
  EXPECT_THAT(refusal(std::string(60, '[') + std::string(60, ']')),
              ::testing::HasSubstr("more than 32 levels of nesting"));
}

}  // namespace
}  // namespace lockstep::document
