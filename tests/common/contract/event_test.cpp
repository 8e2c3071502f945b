// SPDX-License-Identifier: Apache-2.0
#include "common/contract/event.h"

#include <cmath>
#include <gmock/gmock.h>
#include <limits>

#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(Event, GoesToJsonAndBack) {
  const Event event{.kind = "step",
                    .time = 1706693400.25,
                    .rank = 3,
                    .fields = {{"step", int64_t{7}}, {"loss", 0.5}, {"directory", "a \"b\""}}};

  EXPECT_EQ(to_json(event),
            R"({"event":"step","time":1706693400.25,"rank":3,"step":7,"loss":0.5,)"
            R"("directory":"a \"b\""})");
  EXPECT_EQ(parse_event(to_json(event)), event);
}

TEST(Event, KeepsANumberThatIsNone) {
  const Event event = parse_event(R"({"event":"step","time":1,"rank":0,"loss":null})");
  EXPECT_TRUE(std::isnan(find_number(event, "loss").value_or(0)));
  EXPECT_EQ(to_json(event), R"({"event":"step","time":1.0,"rank":0,"loss":null})");
}

TEST(Event, IsUtf8WhateverItsTextIs) {
  const Event event{.kind = "checkpoint", .time = 1, .fields = {{"directory", "runs/b\xFF"}}};
  EXPECT_EQ(
      to_json(event),
      "{\"event\":\"checkpoint\",\"time\":1.0,\"rank\":0,\"directory\":\"runs/b\xEF\xBF\xBD\"}");
}

TEST(Event, ReadsTheNumbersThatAreWrittenAsText) {
  const Event event = parse_event(
      R"({"event":"metric","time":1,"rank":0,"a":"nan","b":"inf","c":"-inf","d":"nano"})");
  EXPECT_TRUE(std::isnan(find_number(event, "a").value_or(0)));
  EXPECT_EQ(find_number(event, "b"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(find_number(event, "c"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(find_number(event, "d"), std::nullopt);
}

TEST(Event, LeavesAloneWhatLaterVersionsMayHave) {
  const Event event = parse_event(
      R"({"x":{"rank":9,"y":[1,2]},"event":"step","time":1,"rank":0,"z":[{"a":1}],"b":true,"c":1})");
  EXPECT_EQ(event.rank, 0);
  EXPECT_THAT(event.fields, ElementsAre(Pair("c", Event::Value(int64_t{1}))));
}

TEST(Event, RefusesWhatIsNone) {
  for (const char* line : {"",
                           "7",
                           "\"event\"",
                           "null",
                           "true",
                           "[]",
                           "{}",
                           "[{\"event\":\"step\",\"time\":1,\"rank\":0}]",
                           R"({"event":"step","time":1})",
                           R"({"event":"step","time":1,"rank":0)",
                           R"({"event":"step","time":1,"rank":0} x)",
                           R"({"event":"step","time":"1","rank":0})",
                           R"({"event":7,"time":1,"rank":0})"}) {
    SCOPED_TRACE(line);
    try {
      parse_event(line);
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::Io);
      EXPECT_THAT(error.sentence(), HasSubstr(line));
    }
  }
}

}  // namespace
}  // namespace lockstep::contract
