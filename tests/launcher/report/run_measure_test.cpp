// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/run_measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/os/files.h"
#include "support/sized_run.h"

namespace lockstep::report {
namespace {

using lockstep::testing::SizedRun;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Measure : public ::testing::Test {
 protected:
  RunMeasure measured(const SizedRun& run) const {
    run.write(directory_.path() / "run");
    return measure();
  }
  RunMeasure measure() const {
    return measure_run(contract::RunDirectory(directory_.path() / "run"));
  }
  void append(const std::string& file, const std::string& line) const {
    std::ofstream(directory_.path() / "run/events" / file, std::ios::app) << line << "\n";
  }

 private:
  os::TemporaryDirectory directory_{"measure"};
};

TEST_F(Measure, LeavesTheFirstStepsOut) {
  const RunMeasure run = measured({.workers = 4, .nodes = 2, .global_batch = 64});

  EXPECT_THAT(run.objection, IsEmpty());
  EXPECT_EQ(run.strategy, "ddp");
  EXPECT_EQ(run.program, "train");
  EXPECT_EQ(run.workers, 4);
  EXPECT_EQ(run.nodes, 2);
  EXPECT_EQ(run.gpus, 0);
  EXPECT_EQ(run.global_batch, 64);
  EXPECT_NEAR(run.step_seconds, 0.25, 1e-6);
  EXPECT_NEAR(run.samples_per_second, 256, 1e-3);
  EXPECT_NEAR(run.spread, 0, 1e-5);
  EXPECT_FALSE(run.exchange_share);
  EXPECT_FALSE(run.joules_per_sample);
}

TEST_F(Measure, IsNotMovedByAPauseForAnEvaluation) {
  const SizedRun sized;
  measured(sized);
  for (int64_t step = 41; step <= 60; ++step) {
    append("rank-0.jsonl",
           contract::to_json({.kind = "step",
                              .time = sized.time_of(step) + 30,
                              .rank = 0,
                              .fields = {{"step", step}}}));
  }

  EXPECT_NEAR(measure().samples_per_second, 256, 1e-3);
}

TEST_F(Measure, KnowsWhereAStepWaitsForOthers) {
  const RunMeasure run = measured({.workers = 2, .exchange_seconds = 0.05});

  ASSERT_TRUE(run.exchange_share);
  EXPECT_NEAR(*run.exchange_share, 0.2, 1e-6);
}

TEST_F(Measure, CountsTheEnergyOfItsOwnGpus) {
  for (const bool has_energy : {true, false}) {
    const RunMeasure run = measured(
        {.workers = 4, .nodes = 2, .global_batch = 64, .watts = 400, .has_energy = has_energy});

    EXPECT_EQ(run.gpus, 4);
    ASSERT_TRUE(run.joules_per_sample);
    // Four GPUs of 400 W for 0.25 s give 64 samples.
    EXPECT_NEAR(*run.joules_per_sample, 4 * 400 * 0.25 / 64, 1e-6);
  }
}

TEST_F(Measure, LooksAtTheLastStartAlone) {
  SizedRun before{.workers = 1, .step_seconds = 1};
  measured(before);
  append("rank-0.jsonl",
         contract::to_json(
             {.kind = "start",
              .time = SizedRun::kStart + 100,
              .rank = 0,
              .fields = {
                  {"workers", int64_t{1}}, {"strategy", "ddp"}, {"global_batch", int64_t{32}}}}));
  for (int64_t step = 31; step <= 50; ++step) {
    append("rank-0.jsonl",
           contract::to_json({.kind = "step",
                              .time = SizedRun::kStart + 100 + 0.5 * static_cast<double>(step),
                              .rank = 0,
                              .fields = {{"step", step}}}));
  }

  EXPECT_NEAR(measure().step_seconds, 0.5, 1e-6);
  EXPECT_NEAR(measure().samples_per_second, 64, 1e-3);
}

TEST_F(Measure, TakesAProgramsWordForItsSpeed) {
  measured({.strategy = "horovod", .workers = 2, .has_events = false});
  for (int step = 1; step <= 20; ++step) {
    const double time = SizedRun::kStart + 0.5 * step;
    append("output-0.jsonl",
           contract::to_json({.kind = "metric",
                              .time = time,
                              .rank = 0,
                              .fields = {{"name", "step"}, {"value", int64_t{step}}}}));
    append("output-0.jsonl",
           contract::to_json({.kind = "metric",
                              .time = time,
                              .rank = 0,
                              .fields = {{"name", "samples_per_second"}, {"value", 480.0}}}));
  }

  const RunMeasure run = measure();
  EXPECT_THAT(run.objection, IsEmpty());
  EXPECT_EQ(run.strategy, "horovod");
  EXPECT_EQ(run.workers, 2);
  EXPECT_NEAR(run.step_seconds, 0.5, 1e-6);
  EXPECT_EQ(run.samples_per_second, 480);
}

TEST_F(Measure, SaysWhyItMeasuresNothing) {
  EXPECT_THAT(measured({.steps = 5}).objection,
              HasSubstr("too short: 3 step reports after the warm-up, at least 4 are needed"));
  EXPECT_THAT(measured({.steps = 6}).objection, IsEmpty());
  EXPECT_THAT(measured({.global_batch = 0}).objection, HasSubstr("neither its global batch"));
}

}  // namespace
}  // namespace lockstep::report
