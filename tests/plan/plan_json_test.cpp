// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_json.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "support/golden.h"

namespace lockstep::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

LaunchPlan some_plan() {
  Request request;
  request.program = {"train.py", "--name", "\"two\" words\n"};
  request.nproc_per_node = "2";
  request.grace = "2.5";
  request.env = {"A=b"};
  Surroundings here;
  here.node = "node-a";
  here.directory = "/home/me";
  here.cores = 4;
  here.free_port = 23456;
  here.timestamp = "20240131-093000";
  here.short_id = "beef";
  here.command_time = "1706693400.125";
  here.environment = {{"PYTHONUNBUFFERED", "0"}};
  return make_plan(request, here);
}

TEST(PlanJson, ComesBackAsItWas) {
  EXPECT_EQ(parse_plan(to_json(some_plan())), some_plan());
}

TEST(PlanJson, HasTheFormThatIsDocumented) {
  testing::expect_golden(to_json(some_plan()), "plan.json");
}

TEST(PlanJson, RefusesWhatIsNoPlan) {
  std::string unknown = to_json(some_plan());
  unknown.replace(unknown.find("\"probe\""), 7, "\"guess\"");
  std::string later = to_json(some_plan());
  later.replace(later.find("\"format\": 1"), 11, "\"format\": 9");

  for (const char* text : {"", "{}", "[1]", "{\"format\": 1}"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT([&] { parse_plan(text); }, ThrowsMessage<Error>(HasSubstr("cannot read the plan")));
  }
  EXPECT_THAT([&] { parse_plan(unknown); },
              ThrowsMessage<Error>(HasSubstr("'guess' is no source")));
  EXPECT_THAT([&] { parse_plan(later); }, ThrowsMessage<Error>(HasSubstr("format 9 is not ours")));
}

TEST(PlanJson, IsWrittenEvenWhenAWordIsNotUtf8) {
  LaunchPlan plan = some_plan();
  plan.command.emplace_back("\xff\xfe");

  EXPECT_THAT(to_json(plan), HasSubstr("\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace lockstep::plan
