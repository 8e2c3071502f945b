// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/event_store.h"

#include <cmath>
#include <gmock/gmock.h>
#include <limits>

#include "support/fake_run.h"

namespace lockstep::monitor {
namespace {

using lockstep::testing::FakeRun;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Optional;
using ::testing::SizeIs;

constexpr double kEver = std::numeric_limits<double>::infinity();

std::vector<Point> all_of(const EventStore& store, const std::string& name) {
  return store.series(name, 0, kEver, 100000);
}

TEST(EventStore, IsEmptyWhereThereIsNothingYet) {
  EventStore store(contract::RunDirectory("/nowhere/at/all"));

  EXPECT_FALSE(store.poll());
  EXPECT_THAT(store.snapshot().ranks, IsEmpty());
  EXPECT_THAT(store.series_names(), IsEmpty());
  EXPECT_THAT(store.marks(), IsEmpty());
}

TEST(EventStore, ReportsTheStateOfTheRunAndOfItsRanks) {
  const FakeRun fake_run;
  fake_run.write_all();
  EventStore store(fake_run.run());

  EXPECT_TRUE(store.poll());
  EXPECT_FALSE(store.poll());
  const Snapshot now = store.snapshot();
  EXPECT_EQ(now.run_id, "train-20240131-093000-beef");
  EXPECT_EQ(now.job, "4711");
  EXPECT_EQ(now.phase, "running");
  EXPECT_EQ(now.strategy, "ddp");
  EXPECT_THAT(now.command, ElementsAre("python3", "train.py"));
  EXPECT_EQ(now.step, 40);
  EXPECT_EQ(now.steps, 1000);
  EXPECT_THAT(now.loss, Optional(0.05));
  EXPECT_THAT(now.accuracy, Optional(0.98));
  EXPECT_EQ(now.checkpoint_step, 40);
  EXPECT_NEAR(now.seconds_left.value_or(0), 960 * 0.25, 1e-6);
  EXPECT_EQ(now.bad_lines, 0);
  ASSERT_THAT(now.ranks, SizeIs(4));
  const RankView& slow = now.ranks[2];
  EXPECT_EQ(slow.node, 1);
  EXPECT_NEAR(slow.own_seconds.value_or(0), 0.23, 1e-9);
  EXPECT_NEAR(slow.split.exchange.value_or(0), 0.02, 1e-9);
  EXPECT_TRUE(slow.is_straggler);
  EXPECT_THAT(slow.why_straggler, HasSubstr("0.23 s, median 0.16 s"));
  EXPECT_FALSE(now.ranks[0].is_straggler);
  ASSERT_THAT(now.nodes, SizeIs(2));
  EXPECT_THAT(now.nodes[0].received_per_second, Optional(1e6));
  EXPECT_THAT(now.nodes[0].sent_per_second, Optional(2e6));
}

TEST(EventStore, KeepsASeriesOfEveryNumber) {
  const FakeRun fake_run;
  fake_run.write_all();
  EventStore store(fake_run.run());
  store.poll();

  EXPECT_THAT(store.series_names(),
              IsSupersetOf({"loss",
                            "learning_rate",
                            "samples_per_second",
                            "gradient_norm",
                            "evaluation/accuracy",
                            "output/perplexity",
                            "rank/3/own_seconds",
                            "node/0/cores",
                            "node/0/gpu/1/utilisation"}));
  EXPECT_THAT(all_of(store, "loss"), SizeIs(40));
  EXPECT_EQ(all_of(store, "loss").back().step, 40);
  EXPECT_THAT(all_of(store, "node/0/gpu/1/utilisation"), Contains(Field(&Point::mean, 0.97)));
  EXPECT_THAT(all_of(store, "nothing"), IsEmpty());
  // Agents do not know steps: the step of rank 0 at that time is used.
  EXPECT_THAT(all_of(store, "node/0/cores"),
              ElementsAre(Field(&Point::step, 36), Field(&Point::step, 40)));
  EXPECT_THAT(all_of(store, "rank/3/memory_bytes").back().step, 40);
}

TEST(EventStore, FollowsWhatIsWrittenAndWaitsForTheRestOfALine) {
  const FakeRun fake_run;
  EventStore store(fake_run.run());
  fake_run.step(0, 1);
  EXPECT_TRUE(store.poll());

  fake_run.append("rank-0.jsonl", R"({"event":"step","time":1706693411,"ra)");
  EXPECT_TRUE(store.poll());
  EXPECT_EQ(store.snapshot().step, 1);
  fake_run.append("rank-0.jsonl", "nk\":0,\"step\":2,\"loss\":1}\n");
  EXPECT_TRUE(store.poll());

  EXPECT_EQ(store.snapshot().step, 2);
  EXPECT_EQ(store.snapshot().bad_lines, 0);
}

TEST(EventStore, CountsBadLinesAndGoesOn) {
  const FakeRun fake_run;
  fake_run.append("rank-0.jsonl", "no JSON\n[]\n{\"event\":\"step\"}\n");
  fake_run.append("node-0.jsonl", "{}\n");
  fake_run.append("output-0.jsonl",
                  R"({"event":"metric","time":1,"rank":0,"name":"x"})"
                  "\n");
  fake_run.append("else.txt", "not ours\n");
  fake_run.step(0, 3);
  EventStore store(fake_run.run());
  store.poll();

  EXPECT_EQ(store.snapshot().bad_lines, 5);
  EXPECT_EQ(store.snapshot().step, 3);
}

TEST(EventStore, ReadsWhatWasPutAsideBeforeAndDuringTheWatch) {
  const FakeRun fake_run;
  const auto rotate = [&fake_run] {
    const auto file = fake_run.events() / "rank-0.jsonl";
    const auto name = [&file](int number) {
      return std::filesystem::path(file.string() + "." + std::to_string(number));
    };
    if (std::filesystem::exists(name(1))) {
      std::filesystem::rename(name(1), name(2));
    }
    std::filesystem::rename(file, name(1));
  };
  fake_run.step(0, 1);
  rotate();
  fake_run.step(0, 2);
  EventStore store(fake_run.run());
  store.poll();
  EXPECT_THAT(all_of(store, "loss"), SizeIs(2));

  fake_run.step(0, 3);  // rotated before it is read
  rotate();
  fake_run.step(0, 4);
  store.poll();

  EXPECT_THAT(all_of(store, "rank/0/step"),
              ElementsAre(Field(&Point::step, 1),
                          Field(&Point::step, 2),
                          Field(&Point::step, 3),
                          Field(&Point::step, 4)));
  EXPECT_EQ(store.snapshot().bad_lines, 0);
}

TEST(EventStore, SaysThatSomethingIsLostWhenAFileWasThrownAway) {
  const FakeRun fake_run;
  fake_run.step(0, 1);
  EventStore store(fake_run.run());
  store.poll();

  // Keeps the old file under another name, so that the new file cannot reuse its inode.
  std::filesystem::rename(fake_run.events() / "rank-0.jsonl", fake_run.events() / "elsewhere");
  fake_run.step(0, 9);
  store.poll();

  EXPECT_EQ(store.snapshot().step, 9);
  EXPECT_EQ(store.snapshot().bad_lines, 1);
}

TEST(EventStore, ShowsALossThatIsNoNumber) {
  const FakeRun fake_run;
  fake_run.step(0, 1);
  fake_run.append(
      {.kind = "step", .time = 3, .rank = 0, .fields = {{"step", int64_t{3}}, {"loss", NAN}}});
  EventStore store(fake_run.run());
  store.poll();

  EXPECT_TRUE(std::isnan(store.snapshot().loss.value_or(0)));
  EXPECT_THAT(store.snapshot().bad_loss_time, Optional(3));
  EXPECT_EQ(store.snapshot().bad_loss_step, 3);
  EXPECT_EQ(store.snapshot().bad_lines, 0);
}

TEST(EventStore, MarksWhatHappenedOnce) {
  const FakeRun fake_run;
  fake_run.write_all();
  fake_run.start(0, FakeRun::kStart + 30);
  fake_run.append({.kind = "end",
                   .time = FakeRun::kStart + 40,
                   .rank = 0,
                   .fields = {{"step", int64_t{1000}}}});
  EventStore store(fake_run.run());
  store.poll();

  using Kind = Mark::Kind;
  EXPECT_THAT(store.marks(),
              ElementsAre(Field(&Mark::kind, Kind::Start),
                          Field(&Mark::text, "loss 0.0625, accuracy 0.98"),
                          Field(&Mark::text, "checkpoints/step-00000040, 0.125 s"),
                          Field(&Mark::kind, Kind::Restart),
                          Field(&Mark::kind, Kind::End)));
  EXPECT_EQ(store.snapshot().restarts, 1);
  EXPECT_TRUE(store.snapshot().ranks[0].has_ended);
}

TEST(EventStore, ForgetsTheRanksAndStepsOfALargerAttempt) {
  const FakeRun fake_run;
  for (int rank = 0; rank < 4; ++rank) {
    fake_run.start(rank, FakeRun::kStart);
    fake_run.step(rank, 100);
  }
  fake_run.start(0, FakeRun::kStart + 100, 2);
  fake_run.append({.kind = "step",
                   .time = FakeRun::kStart + 101,
                   .rank = 0,
                   .fields = {{"step", int64_t{51}}}});
  EventStore store(fake_run.run());
  store.poll();

  const Snapshot now = store.snapshot();
  ASSERT_THAT(now.ranks, SizeIs(2));
  EXPECT_EQ(now.ranks[1].step, -1);
  EXPECT_EQ(now.step, 51);
  EXPECT_FALSE(now.ranks[0].is_straggler);
}

TEST(EventStore, TakesTheOutputsWordWhereAProgramHasNoEvents) {
  const FakeRun fake_run;
  for (const auto& [name, value] :
       {std::pair("step", "7"), {"loss", "0.5"}, {"accuracy", "0.25"}}) {
    fake_run.append("output-0.jsonl",
                    std::string(R"({"event":"metric","time":1706693420,"rank":0,"name":")") + name +
                        R"(","value":)" + value + "}\n");
  }
  EventStore store(fake_run.run());
  store.poll();

  EXPECT_EQ(store.snapshot().step, 7);
  EXPECT_THAT(store.snapshot().loss, Optional(0.5));
  EXPECT_THAT(store.snapshot().accuracy, Optional(0.25));
}

}  // namespace
}  // namespace lockstep::monitor
