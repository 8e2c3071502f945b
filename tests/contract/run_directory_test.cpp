// SPDX-License-Identifier: Apache-2.0
#include "contract/run_directory.h"

#include <gmock/gmock.h>

namespace lockstep::contract {
namespace {

TEST(RunDirectory, NamesEveryFileOfARun) {
  const RunDirectory run("runs/a");

  EXPECT_EQ(run.root(), "runs/a");
  EXPECT_EQ(run.plan(), "runs/a/plan.json");
  EXPECT_EQ(run.failure(), "runs/a/failure.json");
  EXPECT_EQ(run.checkpoints(), "runs/a/checkpoints");
  EXPECT_EQ(run.log(2, 13), "runs/a/logs/attempt-2/rank-13.log");
  EXPECT_EQ(run.events(13), "runs/a/events/rank-13.jsonl");
}

}  // namespace
}  // namespace lockstep::contract
