// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/totals.h"

#include <gmock/gmock.h>

#include "launcher/monitor/event_store.h"
#include "support/fake_run.h"

namespace lockstep::monitor {
namespace {

using lockstep::testing::FakeRun;
using ::testing::DoubleEq;
using ::testing::Optional;
using ::testing::SizeIs;

contract::NodeSample sample_at(double time, double utilisation, double joules) {
  contract::NodeSample sample{.time = time, .host = "a", .cores = 3, .granted = 8};
  sample.gpus = {{.index = 0,
                  .uuid = "GPU-0",
                  .utilisation = utilisation,
                  .memory_bytes = static_cast<int64_t>(1000 * utilisation),
                  .power_watts = 200,
                  .energy_joules = joules}};
  sample.workers = {{.rank = 0, .cores = 1.5, .gpus = {0}}, {.rank = 1, .cores = 0.5}};
  return sample;
}

TEST(HostTally, WeighsEachSampleByItsTime) {
  HostTally tally;
  tally.add(sample_at(100, 0.9, 0));  // the first sample covers no time
  tally.add(sample_at(101, 0.2, 100));
  tally.add(sample_at(104, 0.6, 500));

  ASSERT_THAT(tally.hosts(), SizeIs(1));
  const HostTotals& host = tally.hosts()[0];
  EXPECT_DOUBLE_EQ(host.seconds, 4);
  EXPECT_THAT(host.cores.mean(), Optional(DoubleEq(3)));
  EXPECT_THAT(host.worker_cores.mean(), Optional(DoubleEq(2)));
  ASSERT_THAT(host.gpus, SizeIs(1));
  EXPECT_THAT(host.gpus[0].utilisation.mean(), Optional(DoubleEq((0.2 + 3 * 0.6) / 4)));
  EXPECT_THAT(host.gpus[0].peak_memory_bytes, Optional(900));
  EXPECT_DOUBLE_EQ(host.gpus[0].counted_joules, 500);
  EXPECT_DOUBLE_EQ(host.gpus[0].estimated_joules, 0);
  EXPECT_EQ(host.gpus[0].ranks, (std::map<int, int>{{0, 3}}));
}

TEST(HostTally, TakesPowerWhereTheCounterOfEnergyBeginsAnew) {
  HostTally tally;
  tally.add(sample_at(100, 1, 1000));
  tally.add(sample_at(101, 1, 1250));
  tally.add(sample_at(102, 1, 10));
  tally.add(sample_at(103, 1, 260));

  const GpuTotals& gpu = tally.hosts()[0].gpus[0];
  EXPECT_DOUBLE_EQ(gpu.counted_joules, 500);
  EXPECT_DOUBLE_EQ(gpu.counted_seconds, 2);
  EXPECT_DOUBLE_EQ(gpu.estimated_joules, 200);
  EXPECT_DOUBLE_EQ(gpu.estimated_seconds, 1);
}

TEST(HostTally, LeavesOutAGapAndKeepsHostsApart) {
  HostTally tally;
  tally.add(sample_at(100, 1, 0));
  tally.add(sample_at(101, 1, 100));
  tally.add(sample_at(5000, 0, 999999));  // the job waited in the queue
  tally.add(sample_at(5001, 1, 1000099));
  contract::NodeSample other = sample_at(5002, 0.5, 7);
  other.host = "b";
  tally.add(other);

  ASSERT_THAT(tally.hosts(), SizeIs(2));
  EXPECT_DOUBLE_EQ(tally.hosts()[0].seconds, 2);
  EXPECT_DOUBLE_EQ(tally.hosts()[0].gpus[0].counted_joules, 200);
  EXPECT_EQ(tally.hosts()[1].host, "b");
  EXPECT_DOUBLE_EQ(tally.hosts()[1].seconds, 0);
}

TEST(HostTally, TakesRareSamplesForWhatTheyAre) {
  HostTally tally;
  for (int i = 0; i < 4; ++i) {
    tally.add(sample_at(1000 + 60 * i, 0.5, 0));
  }
  EXPECT_DOUBLE_EQ(tally.hosts()[0].seconds, 180);
}

TEST(HostTally, SeesSlowedClocksOnlyUnderLoad) {
  HostTally tally;
  const auto add = [&tally](double time, double utilisation, double clock) {
    contract::NodeSample sample = sample_at(time, utilisation, 0);
    sample.gpus[0].sm_clock_mhz = clock;
    sample.gpus[0].temperature = clock < 1500 ? 90 : 70;
    tally.add(sample);
  };
  add(1, 0.9, 1980);
  add(2, 0.9, 1980);
  add(3, 0.9, 1200);
  add(4, 0.0, 345);

  const GpuTotals& gpu = tally.hosts()[0].gpus[0];
  EXPECT_DOUBLE_EQ(gpu.busy_seconds, 2);
  EXPECT_DOUBLE_EQ(gpu.slowed_seconds, 1);
  EXPECT_THAT(gpu.hottest, Optional(90));
}

TEST(HostTally, CountsTrafficAndErrorsSinceTheFirstSample) {
  HostTally tally;
  const auto add = [&tally](double time, int64_t bytes, int64_t errors) {
    contract::NodeSample sample = sample_at(time, 1, 0);
    sample.interfaces = {{.name = "ib0", .received_bytes = bytes, .sent_bytes = 2 * bytes}};
    sample.gpus[0].ecc_errors = errors;
    tally.add(sample);
  };
  add(1, 1000, 5);
  add(2, 1700, 5);
  add(3, 100, 7);  // the counter was reset

  const HostTotals& host = tally.hosts()[0];
  EXPECT_EQ(host.interfaces.at("ib0").received_bytes, 700);
  EXPECT_EQ(host.interfaces.at("ib0").sent_bytes, 1400);
  EXPECT_EQ(host.gpus[0].new_ecc_errors, 2);
}

TEST(RankTotals, GoOnOverARestart) {
  const FakeRun fake_run;
  const auto step = [&fake_run](double time, int64_t number) {
    fake_run.append({.kind = "step",
                     .time = FakeRun::kStart + time,
                     .rank = 0,
                     .fields = {{"step", number},
                                {"data_seconds", 0.5},
                                {"compute_seconds", 1.0},
                                {"update_seconds", 0.25}}});
  };
  fake_run.start(0, FakeRun::kStart);
  step(3, 1);
  step(5, 11);
  fake_run.append({.kind = "checkpoint",
                   .time = FakeRun::kStart + 6,
                   .rank = 0,
                   .fields = {{"step", int64_t{11}}, {"seconds", 9.0}, {"stall_seconds", 0.125}}});
  fake_run.start(0, FakeRun::kStart + 100);
  step(102, 12);
  step(104, 22);
  fake_run.append(
      {.kind = "end", .time = FakeRun::kStart + 105, .rank = 0, .fields = {{"step", int64_t{24}}}});
  EventStore store(fake_run.run());
  store.poll();

  const RankTotals totals = store.snapshot().ranks.at(0).totals;
  EXPECT_DOUBLE_EQ(totals.seconds, 5 + 4);
  EXPECT_EQ(totals.steps, 10 + 10 + 2);
  EXPECT_THAT(totals.data, Optional(DoubleEq(2)));
  EXPECT_THAT(totals.compute, Optional(DoubleEq(4)));
  EXPECT_THAT(totals.update, Optional(DoubleEq(1)));
  EXPECT_EQ(totals.exchange, std::nullopt);
  EXPECT_THAT(totals.stall, Optional(DoubleEq(0.125)));
  EXPECT_DOUBLE_EQ(store.snapshot().checkpoint_seconds, 0.125);
}

}  // namespace
}  // namespace lockstep::monitor
