// SPDX-License-Identifier: Apache-2.0
#include "common/contract/pace.h"

#include <fstream>
#include <gmock/gmock.h>

#include "common/contract/event.h"
#include "common/os/files.h"

namespace lockstep::contract {
namespace {

class PaceOfARun : public ::testing::Test {
 protected:
  PaceOfARun() { os::make_directories(run.events(0).parent_path()); }

  void write(const Event& event) const { write_line(to_json(event)); }
  void write_line(const std::string& line) const {
    std::ofstream(run.events(0), std::ios::app) << line << '\n';
  }
  void write_checkpoint(double seconds) const {
    write({.kind = "checkpoint", .time = 1, .rank = 0, .fields = {{"seconds", seconds}}});
  }
  void write_step(double time, int64_t step) const {
    write({.kind = "step", .time = time, .rank = 0, .fields = {{"step", step}}});
  }

  os::TemporaryDirectory directory{"pace-test"};
  RunDirectory run{directory.path()};
};

TEST_F(PaceOfARun, IsUnknownWithoutEvents) {
  EXPECT_EQ(find_pace(run), Pace());
  EXPECT_EQ(find_pace(RunDirectory("no-such-run")), Pace());
}

TEST_F(PaceOfARun, ReportsTheLongestOfTheLastCheckpoints) {
  write_checkpoint(99);  // older than the last ten
  for (const double seconds : {1.0, 2.0, 7.5, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0}) {
    write_checkpoint(seconds);
  }
  write_line(R"({"event":"checkpoint","time":1,"rank")");  // its worker was killed

  EXPECT_EQ(find_pace(run).checkpoint_seconds, 7.5);
}

TEST_F(PaceOfARun, KnowsNoCheckpointOfARunThatDidNotMeasure) {
  write({.kind = "checkpoint", .time = 1, .rank = 0, .fields = {{"step", int64_t{4}}}});

  EXPECT_EQ(find_pace(run), Pace());
}

TEST_F(PaceOfARun, ReportsTheDurationOfAStep) {
  write_step(100, 10);
  write_step(104, 12);

  EXPECT_EQ(find_pace(run).step_seconds, 2);

  write_step(200, 11);  // after a restart
  EXPECT_EQ(find_pace(run).step_seconds, std::nullopt);
}

}  // namespace
}  // namespace lockstep::contract
