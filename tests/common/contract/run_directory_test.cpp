// SPDX-License-Identifier: Apache-2.0
#include "common/contract/run_directory.h"

#include <gmock/gmock.h>

#include "common/os/files.h"

namespace lockstep::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RunDirectory, NamesEveryFileOfARun) {
  const RunDirectory run("runs/a");

  EXPECT_EQ(run.root(), "runs/a");
  EXPECT_EQ(run.plan(), "runs/a/plan.json");
  EXPECT_EQ(run.state(), "runs/a/state.json");
  EXPECT_EQ(run.cancel(), "runs/a/cancel");
  EXPECT_EQ(run.failure(), "runs/a/failure.json");
  EXPECT_EQ(run.checkpoints(), "runs/a/checkpoints");
  EXPECT_EQ(run.log(2, 13), "runs/a/logs/attempt-2/rank-13.log");
  EXPECT_EQ(run.events(13), "runs/a/events/rank-13.jsonl");
}

TEST(RunDirectory, FindsTheLogsThatAreThere) {
  const os::TemporaryDirectory directory;
  const RunDirectory run(directory.path());
  EXPECT_THAT(run.find_attempts(), IsEmpty());
  EXPECT_THAT(run.find_logged_ranks(0), IsEmpty());

  for (const int rank : {10, 2, 0}) {
    os::make_directories(run.log(3, rank).parent_path());
    os::write_file(run.log(3, rank), "");
  }
  os::write_file(run.log(3, 0).parent_path() / "rank-x.log", "");
  os::make_directories(run.log(0, 0).parent_path());

  EXPECT_THAT(run.find_attempts(), ElementsAre(0, 3));
  EXPECT_THAT(run.find_logged_ranks(3), ElementsAre(0, 2, 10));
}

}  // namespace
}  // namespace lockstep::contract
