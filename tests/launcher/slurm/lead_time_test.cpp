// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/lead_time.h"

#include <fstream>
#include <gtest/gtest.h>

#include "common/contract/event.h"
#include "common/contract/run_directory.h"
#include "common/os/files.h"

namespace lockstep::slurm {
namespace {

using contract::Pace;

TEST(LeadTime, IsTwoMinutesWhereNothingIsKnown) {
  EXPECT_EQ(lead_seconds(Pace()), 120);
}

TEST(LeadTime, IsNeverLessThanAMinute) {
  EXPECT_EQ(lead_seconds({.checkpoint_seconds = 0.2, .step_seconds = 0.1}), 60);
}

TEST(LeadTime, GrowsWithTheCheckpointAndTheStep) {
  EXPECT_EQ(lead_seconds({.checkpoint_seconds = 20, .step_seconds = std::nullopt}), 110);
  EXPECT_EQ(lead_seconds({.checkpoint_seconds = 20, .step_seconds = 30}), 170);
  EXPECT_EQ(lead_seconds({.checkpoint_seconds = 600, .step_seconds = 1}), 1850);
}

TEST(LeadTime, StaysBelowWhatSlurmCanKeep) {
  EXPECT_EQ(lead_seconds({.checkpoint_seconds = 1e9, .step_seconds = 1}), 65530);
}

TEST(LeadTime, LeavesHalfOfAShortLimitForTraining) {
  EXPECT_EQ(lead_seconds(Pace(), 3600), 120);
  EXPECT_EQ(lead_seconds(Pace(), 120), 60);
}

class EarlierRuns : public ::testing::Test {
 protected:
  void write(const std::string& name, double seconds, int age_seconds) const {
    const contract::RunDirectory run(directory.path() / name);
    os::make_directories(run.events(0).parent_path());
    std::ofstream(run.events(0)) << contract::to_json({.kind = "checkpoint",
                                                       .time = 1,
                                                       .rank = 0,
                                                       .fields = {{"seconds", seconds}}})
                                 << '\n';
    std::filesystem::last_write_time(
        run.events(0),
        std::filesystem::file_time_type::clock::now() - std::chrono::seconds(age_seconds));
  }

  os::TemporaryDirectory directory{"lead-time-test"};
};

TEST_F(EarlierRuns, TellByTheNewestOfTheSameName) {
  write("train-20240131-093000-beef", 5, 100);
  write("train-17", 9, 50);
  write("trainer-18", 70, 10);

  EXPECT_EQ(find_earlier_pace(directory.path(), "train").checkpoint_seconds, 9);
}

TEST_F(EarlierRuns, TellNothingWhereThereAreNone) {
  EXPECT_EQ(find_earlier_pace(directory.path() / "runs", "train"), Pace());
}

TEST_F(EarlierRuns, AreSkippedWhereTheyHaveNotMeasured) {
  write("train-1", 5, 100);
  std::filesystem::create_directories(directory.path() / "train-2/events");
  std::ofstream(directory.path() / "train-2/events/rank-0.jsonl") << "";

  EXPECT_EQ(find_earlier_pace(directory.path(), "train").checkpoint_seconds, 5);
}

}  // namespace
}  // namespace lockstep::slurm
