// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "common/contract/launch_plan.h"
#include "launcher/plan/scene.h"
#include "lockstep/error.h"
#include "support/golden.h"

namespace lockstep::plan {
namespace {

using contract::parse_plan;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

LaunchPlan some_plan() {
  Request request = ask({"train.py", "--name", "\"two\" words\n"});
  request.dialect = Dialect::TorchLaunch;
  request.nproc_per_node = by_flag("2");
  request.nnodes = by_flag("1:2");
  request.rdzv_endpoint = by_flag("node-b:29400");
  request.rdzv_conf = by_flag("rank=1");
  request.grace = by_flag("2.5");
  request.monitor_interval = by_flag("5");
  request.tee = by_flag("0:1,1:3");
  request.redirects = by_flag("2");
  request.local_ranks_filter = by_flag("0");
  request.env = {by_flag("A=b")};
  HostEnvironment here = quiet_machine();
  here.environment = {{"PYTHONUNBUFFERED", "0"}};
  return make_plan(request, here);
}

TEST(PlanJson, ComesBackAsItWas) {
  EXPECT_EQ(parse_plan(to_json(some_plan())), some_plan());

  Request hosts = ask({"a"});
  hosts.hosts = by_flag("n1:4,n2:4");
  hosts.include = by_flag("n1:0,2");
  hosts.bind = by_flag("gpu");
  for (const LaunchPlan& plan : {make_plan(hosts, quiet_machine()),
                                 make_plan(ask({"a"}), quiet_machine()),
                                 make_plan(ask({"a"}), in_slurm_job({"n1", "n2"})),
                                 make_plan(ask({"a"}), in_slurm_step({"n1", "n2"}, 2, 3))}) {
    EXPECT_EQ(parse_plan(to_json(plan)), plan);
  }
}

TEST(PlanJson, HasTheFormThatIsDocumented) {
  testing::expect_golden(to_json(some_plan()), "plan.json");
}

TEST(PlanJson, RefusesWhatIsNoPlan) {
  std::string unknown = to_json(some_plan());
  unknown.replace(unknown.find("\"probe\""), 7, "\"guess\"");
  std::string later = to_json(some_plan());
  later.replace(later.find("\"format\": 2"), 11, "\"format\": 9");
  std::string streams = to_json(some_plan());
  streams.replace(streams.find("\"otherwise\""), 11, "\"elsewhere\"");

  for (const char* text : {"", "{}", "[1]", "{\"format\": 2}"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT([&] { parse_plan(text); }, ThrowsMessage<Error>(HasSubstr("cannot read the plan")));
  }
  EXPECT_THAT([&] { parse_plan(unknown); },
              ThrowsMessage<Error>(HasSubstr("unknown value 'guess'")));
  EXPECT_THAT([&] { parse_plan(later); }, ThrowsMessage<Error>(HasSubstr("unknown format 9")));
  EXPECT_THAT([&] { parse_plan(streams); },
              ThrowsMessage<Error>(HasSubstr("cannot read the plan")));
}

TEST(PlanJson, IsWrittenEvenWhenAWordIsNotUtf8) {
  LaunchPlan plan = some_plan();
  plan.command.emplace_back("\xff\xfe");

  EXPECT_THAT(to_json(plan), HasSubstr("\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace lockstep::plan
