// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "plan/plan_json.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DryRun, PrintsThePlanAndStartsNothing) {
  Launcher launcher;

  const Result result =
      launcher.run({"run", "--dry-run", "--nproc_per_node=2", "touch", "started"});

  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.output, HasSubstr("touch started"));
  EXPECT_THAT(result.output, HasSubstr("(flag --nproc-per-node)"));
  EXPECT_THAT(result.output, HasSubstr("(probe: free on this machine)"));
  EXPECT_FALSE(std::filesystem::exists(launcher.path("started")));
  EXPECT_FALSE(std::filesystem::exists(launcher.path("runs")));
}

TEST(DryRun, PrintsThePlanForMachines) {
  const Result result = Launcher().run({"run",
                                        "--json",
                                        "--dry-run",
                                        "--env",
                                        "A=1",
                                        "--env",
                                        "B=2",
                                        "--grace=3",
                                        "--grace",
                                        "4",
                                        "echo",
                                        "--dry-run",
                                        "--",
                                        "x"});

  const plan::LaunchPlan plan = plan::parse_plan(result.output);
  EXPECT_THAT(plan.command, ElementsAre("echo", "--dry-run", "--", "x"));
  EXPECT_EQ(plan.variables.at("A").value, "1");
  EXPECT_EQ(plan.variables.at("B").value, "2");
  EXPECT_EQ(plan.grace_seconds, plan::from_flag(4.0, "--grace"));
}

TEST(DryRun, TakesWhatFollowsTheDashesAsTheProgram) {
  const Result result = Launcher().run({"run", "--dry-run", "--json", "--", "echo", "a b", "--"});

  EXPECT_THAT(plan::parse_plan(result.output).command, ElementsAre("echo", "a b", "--"));
}

}  // namespace
}  // namespace lockstep::testing
