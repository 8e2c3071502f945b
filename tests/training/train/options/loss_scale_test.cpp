// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/loss_scale.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::train {
namespace {

using ::testing::ThrowsMessage;

TEST(LossScaler, IsDynamicWithFp16AndNothingElse) {
  EXPECT_EQ(LossScaler("", "fp16").scale(), 65536);
  EXPECT_FALSE(LossScaler("", "bf16").is_on());
  EXPECT_FALSE(LossScaler("none", "fp16").is_on());
  EXPECT_EQ(LossScaler("dynamic", "fp32").scale(), 65536);
  EXPECT_EQ(LossScaler("0.5", "fp32").scale(), 0.5);
}

TEST(LossScaler, HalvesAtAnOverflowAndDoublesAfter2000GoodSteps) {
  LossScaler scaler("dynamic", "fp16");
  scaler.after_step(1, false);
  scaler.after_step(2, false);
  EXPECT_EQ(scaler.scale(), 16384);

  for (int step = 0; step < 1999; ++step) {
    scaler.after_step(step, true);
  }
  EXPECT_EQ(scaler.scale(), 16384);
  scaler.after_step(2002, true);

  EXPECT_EQ(scaler.scale(), 32768);
  EXPECT_EQ(scaler.skipped(), 2);
}

TEST(LossScaler, GoesOnFromItsState) {
  LossScaler first("dynamic", "fp16");
  first.after_step(1, false);
  for (int step = 0; step < 1500; ++step) {
    first.after_step(step, true);
  }
  LossScaler second("dynamic", "fp16");
  second.restore(first.state());
  for (int step = 0; step < 500; ++step) {
    second.after_step(step, true);
  }

  EXPECT_EQ(second.scale(), 65536);
  EXPECT_EQ(second.skipped(), 1);
}

TEST(LossScaler, GivesUpWhereNoScaleIsSmallEnough) {
  LossScaler scaler("dynamic", "fp16");
  int step = 1;
  for (; step < 16 + 4; ++step) {
    scaler.after_step(step, false);
  }

  EXPECT_THAT([&] { scaler.after_step(step, false); },
              ThrowsMessage<Error>(
                  "cannot continue: gradients overflow at the minimum loss scale 1 (step 20)\n"
                  "  skipped steps: 20, the last 4 in a row at 1\n"
                  "  try:           --precision bf16, a smaller --lr, or --clip 1"));
}

TEST(LossScaler, ForgivesSingleOverflowsAtTheFloor) {
  LossScaler scaler("dynamic", "fp16");
  for (int step = 1; step <= 16; ++step) {
    scaler.after_step(step, false);
  }
  for (int step = 17; step < 100; ++step) {
    scaler.after_step(step, step % 3 == 0);
  }

  EXPECT_EQ(scaler.scale(), 1);
}

TEST(LossScaler, GivesUpAFixedScaleToo) {
  LossScaler scaler("1024", "fp16");
  for (int step = 1; step < 20; ++step) {
    scaler.after_step(step, false);
  }

  EXPECT_THAT([&] { scaler.after_step(20, false); },
              ThrowsMessage<Error>(
                  "cannot continue: gradients overflow at the fixed loss scale 1024 (step 20)\n"
                  "  requested:     --loss-scale 1024\n"
                  "  skipped steps: 20, the last 20 in a row\n"
                  "  try:           --loss-scale dynamic"));
}

TEST(LossScaler, RefusesWhatIsNoScale) {
  for (const std::string text : {"0", "-2", "inf", "1k", "dynamc"}) {
    EXPECT_THAT([&] { LossScaler(text, "fp32"); },
                ThrowsMessage<Error>("--loss-scale '" + text +
                                     "' is not a valid value\n"
                                     "  expected: none, dynamic, or a number above 0\n"
                                     "  try:      --loss-scale dynamic"));
  }
}

TEST(LossScaler, ToleratesOverflowsAsDeepSpeedDoes) {
  LossScaler scaler("dynamic", "fp16", {.first = 1024, .good_steps = 3, .hysteresis = 2});
  scaler.after_step(1, false);
  EXPECT_EQ(scaler.scale(), 1024);  // tolerated
  scaler.after_step(2, false);
  EXPECT_EQ(scaler.scale(), 512);
  scaler.after_step(3, true);
  scaler.after_step(4, false);
  EXPECT_EQ(scaler.scale(), 256);  // a good step does not reset the hysteresis
  for (int step = 5; step < 8; ++step) {
    scaler.after_step(step, true);
  }
  EXPECT_EQ(scaler.scale(), 512);
  scaler.after_step(8, false);
  EXPECT_EQ(scaler.scale(), 512);  // doubling does
  EXPECT_EQ(scaler.skipped(), 4);
}

TEST(LossScaler, RefillsItsPatienceAtAGoodStepIfConfigured) {
  LossScaler scaler(
      "dynamic", "fp16", {.first = 1024, .hysteresis = 2, .refills_hysteresis = true});
  for (int step = 1; step < 10; step += 2) {
    scaler.after_step(step, false);
    scaler.after_step(step + 1, true);
  }
  EXPECT_EQ(scaler.scale(), 1024);
}

TEST(LossScaler, StopsAtItsOwnFloorAndKeepsItsPatienceInACheckpoint) {
  const LossScaling scaling{.first = 64, .hysteresis = 2, .minimum = 32};
  LossScaler scaler("dynamic", "fp16", scaling);
  scaler.after_step(1, false);
  LossScaler resumed("dynamic", "fp16", scaling);
  resumed.restore(scaler.state());
  resumed.after_step(2, false);
  EXPECT_EQ(resumed.scale(), 32);
  resumed.after_step(3, false);
  EXPECT_EQ(resumed.scale(), 32);
  LossScaler old("dynamic", "fp16", scaling);
  old.restore("64 10 0 1");  // of a run without hysteresis
  EXPECT_EQ(old.scale(), 64);
}

}  // namespace
}  // namespace lockstep::train
