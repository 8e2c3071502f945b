// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "launcher/report/scaling_plot.h"
#include "launcher/report/scaling_text.h"
#include "support/golden.h"

namespace lockstep::report {
namespace {

using lockstep::testing::expect_golden;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

RunMeasure run_of(int workers, int64_t batch, double seconds, const std::string& strategy = "ddp") {
  return {.name = strategy + "-" + std::to_string(workers),
          .program = "train",
          .strategy = strategy,
          .nodes = (workers + 3) / 4,
          .workers = workers,
          .gpus = workers,
          .global_batch = batch,
          .samples_per_second = static_cast<double>(batch) / seconds,
          .spread = 0.01,
          .step_seconds = seconds};
}

// 0.5 ms per sample and 4 ms per doubling.
double seconds_of(int workers, double per_worker) {
  return 0.0005 * per_worker + 0.004 * std::log2(workers);
}

std::vector<RunMeasure> strong_runs() {
  std::vector<RunMeasure> runs;
  for (const int workers : {4, 1, 8, 2}) {
    runs.push_back(run_of(workers, 256, seconds_of(workers, 256.0 / workers)));
  }
  return runs;
}

TEST(Scaling, ComparesOneGlobalBatchWithTheSmallest) {
  const Scaling scaling = compare_runs(strong_runs(), {});

  ASSERT_THAT(scaling.strategies, SizeIs(1));
  ASSERT_THAT(scaling.strategies[0].curves, SizeIs(1));
  const ScalingCurve& curve = scaling.strategies[0].curves[0];
  EXPECT_EQ(curve.kind, ScalingKind::Strong);
  EXPECT_EQ(curve.batch, 256);
  ASSERT_THAT(curve.measured, SizeIs(4));
  EXPECT_EQ(curve.measured[0].workers, 1);
  EXPECT_DOUBLE_EQ(curve.measured[0].efficiency, 1);
  // 128 ms against 16 + 12 ms.
  EXPECT_NEAR(curve.measured[3].speed_up, 128.0 / 28, 1e-9);
  EXPECT_NEAR(curve.measured[3].efficiency, 128.0 / 28 / 8, 1e-9);
}

TEST(Scaling, PredictsDoublingsUpToEightTimes) {
  const Scaling scaling = compare_runs(strong_runs(), {});

  const auto& predicted = scaling.strategies[0].curves[0].predicted;
  ASSERT_THAT(predicted, SizeIs(3));
  EXPECT_EQ(predicted[0].workers, 16);
  EXPECT_EQ(predicted[0].nodes, 4);
  EXPECT_EQ(predicted[0].global_batch, 256);
  EXPECT_NEAR(predicted[0].step_seconds, seconds_of(16, 16), 1e-6);
  EXPECT_NEAR(predicted[0].samples_per_second, 256 / seconds_of(16, 16), 0.1);
  EXPECT_NEAR(predicted[0].speed_up, 0.128 / seconds_of(16, 16), 1e-4);
  EXPECT_TRUE(predicted[1].is_trusted);
  EXPECT_EQ(predicted[2].workers, 64);
  EXPECT_FALSE(predicted[2].is_trusted);
}

TEST(Scaling, PredictsTheSizesThatWereAskedFor) {
  const std::vector<PredictedSize> wanted = {{.count = 3, .is_nodes = true}, {.count = 512}};
  const Scaling scaling = compare_runs(strong_runs(), wanted);

  const StrategyScaling& ddp = scaling.strategies[0];
  ASSERT_THAT(ddp.curves[0].predicted, SizeIs(1));
  EXPECT_EQ(ddp.curves[0].predicted[0].workers, 12);
  EXPECT_THAT(ddp.notes, ElementsAre("a global batch of 256 is too small for 512 workers"));
}

TEST(Scaling, ComparesOneBatchPerWorker) {
  std::vector<RunMeasure> runs;
  for (const int workers : {1, 2, 4}) {
    runs.push_back(run_of(workers, 64 * workers, seconds_of(workers, 64)));
  }
  const Scaling scaling = compare_runs(runs, {});

  ASSERT_THAT(scaling.strategies[0].curves, SizeIs(1));
  const ScalingCurve& curve = scaling.strategies[0].curves[0];
  EXPECT_EQ(curve.kind, ScalingKind::Weak);
  EXPECT_EQ(curve.batch, 64);
  // 32 ms against 40 ms.
  EXPECT_NEAR(curve.measured[2].efficiency, 0.8, 1e-9);
  EXPECT_EQ(curve.predicted[0].global_batch, 512);
  EXPECT_NEAR(curve.predicted[0].step_seconds, seconds_of(8, 64), 1e-6);
}

TEST(Scaling, KeepsBothKindsApart) {
  const Scaling scaling = compare_runs(
      {run_of(1, 64, 0.1), run_of(2, 64, 0.06), run_of(2, 128, 0.11), run_of(3, 100, 0.2)}, {});

  const auto& curves = scaling.strategies[0].curves;
  ASSERT_THAT(curves, SizeIs(3));
  EXPECT_EQ(curves[0].kind, ScalingKind::Strong);
  EXPECT_EQ(curves[1].kind, ScalingKind::Weak);
  EXPECT_EQ(curves[2].kind, ScalingKind::Unknown);
  EXPECT_EQ(curves[1].measured[1].global_batch, 128);
  EXPECT_EQ(curves[2].measured[0].workers, 3);
}

TEST(Scaling, TakesTheMedianOfRunsOfOneSize) {
  const Scaling scaling = compare_runs(
      {run_of(2, 100, 1), run_of(2, 100, 0.8), run_of(2, 100, 0.5), run_of(1, 100, 2)}, {});

  const ScalingSize& size = scaling.strategies[0].curves[0].measured[1];
  EXPECT_EQ(size.runs, 3);
  EXPECT_DOUBLE_EQ(size.samples_per_second, 125);
  EXPECT_DOUBLE_EQ(size.step_seconds, 0.8);
  EXPECT_DOUBLE_EQ(size.spread, 50.0 / 125);
  EXPECT_DOUBLE_EQ(size.speed_up, 2.5);
}

TEST(Scaling, SaysWhatToRunWhereSizesAreFew) {
  const Scaling two = compare_runs({run_of(1, 64, 1), run_of(2, 64, 0.6)}, {});
  EXPECT_FALSE(two.strategies[0].model);
  EXPECT_EQ(two.strategies[0].no_model, "2 of at least 3 sizes measured; also run on 4 workers");
  EXPECT_THAT(two.strategies[0].curves[0].predicted, IsEmpty());
  const Scaling one = compare_runs({run_of(2, 64, 1)}, {});
  EXPECT_EQ(one.strategies[0].no_model,
            "1 of at least 3 sizes measured; also run on 4 and 8 workers");
}

TEST(Scaling, SaysWhatMakesItsNumbersDoubtful) {
  std::vector<RunMeasure> runs = {run_of(1, 64, 1), run_of(2, 64, 0.6), run_of(4, 64, 0.4)};
  runs[1].program = "other";

  EXPECT_THAT(compare_runs(runs, {}).strategies[0].notes,
              ElementsAre("the runs are of different programs: other, train",
                          "all runs were on one node: the model does not include the network "
                          "between nodes"));
}

TEST(Scaling, PredictsNothingWithoutBatches) {
  std::vector<RunMeasure> runs = {run_of(1, 0, 1), run_of(2, 0, 1), run_of(4, 0, 1)};
  for (RunMeasure& run : runs) {
    run.samples_per_second = 100 * run.workers;
  }

  const Scaling scaling = compare_runs(runs, {});
  EXPECT_EQ(scaling.strategies[0].no_model, "the runs do not report their global batch");
  EXPECT_DOUBLE_EQ(scaling.strategies[0].curves[0].measured[2].efficiency, 1);
}

// Two strategies, one with all measurements and one with few.
Scaling rich_scaling() {
  std::vector<RunMeasure> runs = strong_runs();
  for (RunMeasure& run : runs) {
    run.exchange_share = 0.004 * std::log2(run.workers) / run.step_seconds;
    run.joules_per_sample = 2.5 / run.workers;
  }
  runs.push_back(run_of(1, 256, 0.13, "horovod"));
  runs.push_back(run_of(2, 256, 0.07, "horovod"));
  RunMeasure early = run_of(4, 256, 1, "horovod");
  early.objection = "too short";
  runs.push_back(early);
  return compare_runs(runs, {});
}

TEST(ScalingTable, IsAPageToRead) {
  const std::string table = scaling_table(rich_scaling());

  expect_golden(table, "scaling.txt");
  for (const std::string& line : split(table, '\n')) {
    EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST(ScalingTable, FitsLargeNumbers) {
  std::vector<RunMeasure> runs;
  for (const int workers : {1024, 2048, 4096}) {
    runs.push_back(run_of(workers, 32 * workers, 0.00123 * workers / 1024));
    runs.back().exchange_share = 0.125;
    runs.back().joules_per_sample = 0.00125;
  }

  for (const std::string& line : split(scaling_table(compare_runs(runs, {})), '\n')) {
    EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST(ScalingCsv, HasARowPerSize) {
  const std::string csv = scaling_csv(rich_scaling());
  const std::vector<std::string> lines = split(trim(csv), '\n');

  EXPECT_THAT(lines[0], StartsWith("strategy,scaling,source,workers,"));
  EXPECT_EQ(lines[2],
            "ddp,strong,measured,2,1,2,256,1,3764.70588,0.01,0.068,1.88235294,"
            "0.941176471,0.0588235294,1.25,yes");
  EXPECT_THAT(lines[5], StartsWith("ddp,strong,predicted,16,4,,256,,"));
  EXPECT_THAT(lines, SizeIs(10));  // a head, 4 and 3 of ddp, 2 of horovod
  for (const std::string& line : lines) {
    EXPECT_EQ(std::ranges::count(line, ','), 15) << line;
  }
}

TEST(ScalingJson, HasAllOfIt) {
  const auto json = nlohmann::json::parse(scaling_json(rich_scaling()));

  const auto& ddp = json["strategies"][0];
  EXPECT_EQ(ddp["curves"][0]["scaling"], "strong");
  EXPECT_EQ(ddp["curves"][0]["measured"][1]["workers"], 2);
  EXPECT_DOUBLE_EQ(ddp["curves"][0]["measured"][1]["joules_per_sample"], 1.25);
  EXPECT_EQ(ddp["curves"][0]["predicted"][2]["is_trusted"], false);
  EXPECT_NEAR(ddp["model"]["seconds_depth"], 0.004, 1e-7);
  EXPECT_NEAR(ddp["model"]["seconds_per_sample"], 0.0005, 1e-8);
  EXPECT_TRUE(json["strategies"][1]["model"].is_null());
  EXPECT_EQ(json["runs"][6]["left_out"], "too short");
}

TEST(ScalingPlot, ShowsWhatWasMeasuredTheModelAndTheIdeal) {
  const std::string svg = scaling_svg(rich_scaling());

  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr("<title>ddp, strong scaling, global batch 256: 1, 2000</title>"));
  EXPECT_THAT(svg, HasSubstr(">ddp, model</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">horovod, model</text>")));
  EXPECT_THAT(svg, HasSubstr(">ideal</text>"));
}

TEST(ScalingPlot, IsAPageOfAllChartsAndTheTable) {
  const std::string page = scaling_page(rich_scaling());

  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, HasSubstr(">Efficiency</text>"));
  EXPECT_THAT(page, HasSubstr(">Exposed communication</text>"));
  const size_t efficiency = page.find(">Efficiency</text>");
  EXPECT_THAT(page.substr(efficiency, page.find("</svg>", efficiency) - efficiency),
              HasSubstr(">0</text>"));
  EXPECT_THAT(page, HasSubstr(">Energy</text>"));
  EXPECT_THAT(page, HasSubstr("no prediction: 2 of at least 3"));
  EXPECT_THAT(page, Not(HasSubstr("http://www.w3.org/1999")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  const std::string poor = scaling_page(compare_runs({run_of(1, 8, 1)}, {}));
  EXPECT_THAT(poor, Not(HasSubstr(">Energy</text>")));
}

}  // namespace
}  // namespace lockstep::report
