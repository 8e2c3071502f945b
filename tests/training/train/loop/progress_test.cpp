// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/progress.h"

#include <gmock/gmock.h>

namespace lockstep::train {
namespace {

ProgressView half_way() {
  return {.epoch = 1,
          .epochs = 2,
          .step_in_epoch = 50,
          .steps_per_epoch = 100,
          .loss = 0.1234,
          .accuracy = 0.9632,
          .samples_per_second = 10240,
          .seconds_left = 12.3};
}

TEST(FormatBar, FillsTheTerminalAndNoMore) {
  EXPECT_EQ(
      format_bar(half_way(), 100),
      "epoch 1/2 [==========>         ]  50 %  loss 0.1234  accuracy 96.32 %  10 240 samples/s  "
      "12.3 s left");
  EXPECT_EQ(format_bar(half_way(), 30).size(), 30U);
}

TEST(FormatLine, SaysTheSameWithoutABar) {
  EXPECT_EQ(format_line(half_way()),
            "epoch 1/2  step 50/100  loss 0.1234  accuracy 96.32 %  10 240 samples/s  12.3 s left");
}

TEST(FormatLine, OmitsAnUnknownThroughput) {
  ProgressView first = half_way();
  first.samples_per_second = 0;
  first.seconds_left = 0;

  EXPECT_EQ(format_line(first), "epoch 1/2  step 50/100  loss 0.1234  accuracy 96.32 %");
}

TEST(FormatTable, HasARowPerEpoch) {
  const std::string table =
      format_table({{.epoch = 1,
                     .train_loss = 0.25,
                     .test = Evaluation{.loss = 0.1, .accuracy = 0.97, .samples = 10000},
                     .samples_per_second = 4100,
                     .seconds = 14.25},
                    {.epoch = 2,
                     .train_loss = 0.125,
                     .test = std::nullopt,
                     .samples_per_second = 4200,
                     .seconds = 75}});

  EXPECT_EQ(table,
            " epoch   train loss   test loss   test accuracy   samples/s          time\n"
            "     1       0.2500      0.1000         97.00 %       4 100        14.2 s\n"
            "     2       0.1250           -               -       4 200    1 min 15 s\n");
}

TEST(FormatTable, HasTopFiveWhereItWasCounted) {
  const Evaluation test{.loss = 0.95, .accuracy = 0.761, .top5 = 0.92954, .samples = 50000};

  EXPECT_EQ(format_accuracy(test), "76.10 %, top-5 92.95 %");
  EXPECT_EQ(format_accuracy({.loss = 1, .accuracy = 0.5, .samples = 2}), "50.00 %");
  EXPECT_EQ(
      format_table({{.epoch = 1,
                     .train_loss = 1.5,
                     .test = test,
                     .samples_per_second = 4100,
                     .seconds = 14.25},
                    {.epoch = 2,
                     .train_loss = 0.125,
                     .test = std::nullopt,
                     .samples_per_second = 4200,
                     .seconds = 75},
                    {.epoch = 3,
                     .train_loss = 0.5,
                     .test = std::nullopt,
                     .samples_per_second = 0,
                     .seconds = 2}}),
      " epoch   train loss   test loss   test accuracy      top-5   samples/s          time\n"
      "     1       1.5000      0.9500         76.10 %    92.95 %       4 100        14.2 s\n"
      "     2       0.1250           -               -          -       4 200    1 min 15 s\n"
      "     3       0.5000           -               -          -           -         2.0 s\n");
}

TEST(FormatSpeed, HasNoRateBeforeTheSecondStep) {
  EXPECT_EQ(format_speed(4100.5, 938, 14.25), "4 100 samples/s, 938 steps in 14.2 s");
  EXPECT_EQ(format_speed(0.38, 12, 60), "0.4 samples/s, 12 steps in 1 min 00 s");
  EXPECT_EQ(format_speed(0, 1, 2), "- samples/s, 1 step in 2.0 s");
}

}  // namespace
}  // namespace lockstep::train
