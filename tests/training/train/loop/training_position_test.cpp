// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/training_position.h"

#include <gmock/gmock.h>
#include <vector>

namespace lockstep::train {
namespace {

TrainingPosition position(int64_t epochs, int64_t steps_per_epoch, int64_t step_limit = 0) {
  TrainingPosition made{.state = {}, .epochs = epochs, .step_limit = step_limit};
  made.state.steps_per_epoch = steps_per_epoch;
  return made;
}

TEST(TrainingPosition, EndsAfterItsEpochsOrItsStepLimit) {
  EXPECT_EQ(position(3, 10).total_steps(), 30);
  EXPECT_EQ(position(3, 10, 12).total_steps(), 12);
  EXPECT_EQ(position(3, 10, 99).total_steps(), 30);
}

TEST(TrainingPosition, CountsStepsOfAnotherGlobalBatch) {
  TrainingPosition resumed = position(3, 10);
  resumed.extra_steps = 5;

  EXPECT_EQ(resumed.total_steps(), 35);
}

TEST(TrainingPosition, KnowsTheLastStepOfAnEpochAndOfTheTraining) {
  TrainingPosition now = position(2, 3, 5);
  std::vector<int64_t> last_steps;
  while (!now.is_finished()) {
    if (now.is_next_step_last()) {
      last_steps.push_back(now.state.step + 1);
    }
    now.complete_step();
    if (now.is_epoch_complete()) {
      now.complete_epoch();
    }
  }

  EXPECT_THAT(last_steps, ::testing::ElementsAre(3, 5));
  EXPECT_EQ(now.state.epoch, 1);
  EXPECT_EQ(now.step_in_epoch, 2);
}

TEST(TrainingPosition, IsFinishedWhenACallbackStopsIt) {
  TrainingPosition now = position(2, 3);
  EXPECT_FALSE(now.is_finished());
  now.stopped_early = true;
  EXPECT_TRUE(now.is_finished());
}

}  // namespace
}  // namespace lockstep::train
