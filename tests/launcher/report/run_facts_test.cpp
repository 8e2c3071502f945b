// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/run_facts.h"

#include <gmock/gmock.h>

#include "launcher/report/fake_training.h"

namespace lockstep::report {
namespace {

using lockstep::testing::FakeRun;
using lockstep::testing::FakeTraining;
using lockstep::testing::kGiB;
using lockstep::testing::Training;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Optional;
using ::testing::SizeIs;

constexpr double kStart = FakeTraining::kStart;

auto near(double value) {
  return Optional(DoubleNear(value, 1e-9));
}

TEST(RunFacts, ComparesWhatWasUsedWithWhatWasGranted) {
  Training shape;
  shape.utilisation_of = {{2, 0.2}};
  shape.gpu_memory_of = {{7, 72 * kGiB}};
  const RunFacts facts = FakeTraining(shape).facts();

  EXPECT_EQ(facts.nodes, 2);
  EXPECT_THAT(facts.hosts, ElementsAre("node-a: 4 workers", "node-b: 4 workers"));
  EXPECT_EQ(count_gpus(facts), 8);
  EXPECT_THAT(gpu_utilisation(facts), near((7 * 0.95 + 0.2) / 8));
  EXPECT_THAT(gpu_memory_use(facts), near(72.0 / 80));
  EXPECT_THAT(cpu_utilisation(facts), near(10.0 / 16));
  EXPECT_THAT(memory_use(facts), near(64.0 / 128));
  EXPECT_DOUBLE_EQ(facts.seconds(), 60);
  EXPECT_THAT(facts.missing, IsEmpty());
}

TEST(RunFacts, SplitTheTimeOfRank0AndOfAll) {
  Training shape;
  shape.data_of = {{6, 0.45}};
  shape.compute_of = {{6, 0.3}};
  const RunFacts facts = FakeTraining(shape).facts();

  EXPECT_THAT(facts.split.leader.data, near(0.05));
  EXPECT_THAT(facts.split.leader.compute, near(0.7));
  EXPECT_THAT(facts.split.leader.exchange, near(0.1));
  EXPECT_THAT(facts.split.leader.update, near(0.1));
  EXPECT_THAT(facts.split.leader.other, near(0.05));
  EXPECT_EQ(facts.split.leader.checkpoint, std::nullopt);
  EXPECT_THAT(facts.split.mean.data, near((7 * 0.05 + 0.45) / 8));
  ASSERT_TRUE(facts.split.data.has_value());
  EXPECT_EQ(facts.split.data->rank, 6);
  EXPECT_NEAR(facts.split.data->share, 0.45, 1e-9);
}

TEST(RunFacts, MeasureSpeedAndEnergy) {
  const FakeTraining training;
  training.fake_run().append({.kind = "first_step",
                              .time = kStart + 1,
                              .rank = 0,
                              .fields = {{"seconds_since_command", 12.5}}});
  const RunFacts facts = training.facts();

  // 10 steps per second of 64 samples; 590 steps from the first event to the last.
  EXPECT_THAT(facts.speed.steps_per_second, near(10));
  EXPECT_THAT(facts.speed.samples_per_second, near(640));
  EXPECT_THAT(facts.speed.samples, Optional(590 * 64));
  EXPECT_THAT(facts.speed.mean_per_second, near(590 * 64 / 60.0));
  EXPECT_THAT(facts.speed.first_step_seconds, near(12.5));
  // 8 GPUs with 400 W for 60 s.
  EXPECT_DOUBLE_EQ(facts.energy.joules, 8 * 400 * 60);
  EXPECT_EQ(facts.energy.source, Energy::Source::Counter);
  EXPECT_THAT(facts.energy.joules_per_sample, near(8 * 400 * 60 / (590 * 64.0)));
}

TEST(RunFacts, SayThatTheEnergyOfSlicesIsEstimated) {
  Training shape;
  shape.gpu_sample = [](contract::GpuSample& gpu, int, int second) {
    gpu.slice_of = 0;
    gpu.slice_share = 1.0 / 8;
    gpu.energy_joules = 50 * second;
  };
  const RunFacts facts = FakeTraining(shape).facts();
  EXPECT_EQ(facts.energy.source, Energy::Source::Slices);
  EXPECT_DOUBLE_EQ(facts.energy.joules, 8 * 50 * 60);
}

TEST(RunFacts, TakeEnergyFromPowerWhereThereIsNoCounter) {
  Training shape;
  shape.gpu_sample = [](contract::GpuSample& gpu, int, int) {
    gpu.energy_joules.reset();
    gpu.power_watts = 250;
  };
  const RunFacts facts = FakeTraining(shape).facts();
  EXPECT_EQ(facts.energy.source, Energy::Source::Power);
  EXPECT_DOUBLE_EQ(facts.energy.joules, 8 * 250 * 60);

  shape.gpu_sample = [](contract::GpuSample& gpu, int, int second) {
    gpu.energy_joules = second < 30 ? 1000 + 400 * second : 400 * (second - 30);
  };
  const RunFacts reset = FakeTraining(shape).facts();
  EXPECT_EQ(reset.energy.source, Energy::Source::Both);
  EXPECT_DOUBLE_EQ(reset.energy.joules, 8 * 400 * 60);
}

TEST(RunFacts, FindWhoIsSlowAndSinceWhen) {
  const FakeRun fake_run;
  fake_run.write_state();
  for (int rank = 0; rank < 4; ++rank) {
    fake_run.start(rank, kStart);
    for (int64_t step = 1; step <= 200; ++step) {
      // Rank 3 becomes slow after half of the run: at 10 s + 25 s.
      fake_run.step(rank, step, rank == 3 && step > 100 ? 0.22 : 0.15);
    }
  }
  for (int node = 0; node < 2; ++node) {
    fake_run.sample(node, kStart + 11);
  }
  monitor::EventStore store(fake_run.run());
  store.poll();
  const RunFacts facts = gather_facts(fake_run.run(), store, {}, kStart + 100);

  ASSERT_THAT(facts.slow, SizeIs(1));
  EXPECT_EQ(facts.slow[0].rank, 3);
  EXPECT_EQ(facts.slow[0].host, "node-b");
  EXPECT_NEAR(facts.slow[0].share, 0.5, 0.05);
  ASSERT_TRUE(facts.slow[0].since.has_value());
  EXPECT_NEAR(*facts.slow[0].since, kStart + 35, 3);
}

TEST(RunFacts, TellHowItEnded) {
  const auto ending = [](contract::RunPhase phase, std::optional<int> code) {
    Training shape;
    shape.seconds = 1;
    shape.phase = phase;
    shape.exit_code = code;
    return FakeTraining(shape).facts().ending;
  };
  using contract::RunPhase;
  EXPECT_EQ(ending(RunPhase::Done, 0).sentence, "done");
  EXPECT_EQ(ending(RunPhase::Failed, 3).sentence, "failed, exit code 3");
  EXPECT_EQ(ending(RunPhase::Cancelled, 130).sentence, "cancelled, exit code 130");
  EXPECT_EQ(ending(RunPhase::Cancelled, 75).sentence, "cancelled at a checkpoint, exit code 75");
  EXPECT_EQ(ending(RunPhase::Cancelled, 124).sentence, "stopped: --timeout expired, exit code 124");
  EXPECT_EQ(ending(RunPhase::Requeued, 0).kind, Ending::Kind::Requeued);
  const Ending lost = ending(RunPhase::Running, std::nullopt);
  EXPECT_EQ(lost.kind, Ending::Kind::Lost);
  EXPECT_EQ(lost.sentence, "killed: the launcher ended without recording a result");
}

TEST(RunFacts, TellWhatTheLauncherFound) {
  Training shape;
  shape.phase = contract::RunPhase::Failed;
  shape.exit_code = 1;
  const FakeTraining training(shape);
  contract::FailureReport report;
  report.failure.who = "rank 3";
  report.failure.rank = 3;
  report.failure.node = "node-a";
  report.failure.exception = {.text = "ValueError: no", .raised_at = {}, .called_from = {}};
  report.failure.log = "runs/a/rank-3.log";
  report.how = "exited with code 1";
  report.hint = "a smaller batch";
  training.fail(report);
  const Ending ending = training.facts().ending;
  EXPECT_EQ(ending.sentence, "failed: rank 3 on node-a exited with code 1");
  EXPECT_THAT(ending.details, ElementsAre("exception: ValueError: no", "log: runs/a/rank-3.log"));

  EXPECT_EQ(ending.advice, "a smaller batch");
  EXPECT_EQ(ending.failed_rank, 3);

  training.fail("no JSON");
  EXPECT_EQ(training.facts().ending.sentence, "failed, exit code 1");
  training.fail("[1]");
  EXPECT_EQ(training.facts().ending.sentence, "failed, exit code 1");
}

TEST(RunFacts, AreNowOfARunThatRuns) {
  Training shape;
  shape.phase = contract::RunPhase::Running;
  const FakeTraining training(shape);
  monitor::EventStore store(training.run());
  store.poll();
  const RunFacts facts = gather_facts(training.run(), store, {}, kStart + 70);

  EXPECT_EQ(facts.ending.kind, Ending::Kind::Running);
  EXPECT_EQ(facts.ending.sentence, "running");
  EXPECT_DOUBLE_EQ(facts.seconds(), 70);
}

TEST(RunFacts, SayWhatIsMissing) {
  Training shape;
  shape.has_events = false;
  EXPECT_THAT(FakeTraining(shape).facts().missing, ElementsAre(HasSubstr("--metric NAME=REGEX")));
  shape.has_events = true;
  shape.has_samples = false;
  EXPECT_THAT(FakeTraining(shape).facts().missing, ElementsAre(HasSubstr("--sample-every")));
  shape.has_events = false;
  EXPECT_THAT(FakeTraining(shape).facts().missing, ElementsAre(HasSubstr("no events: no worker")));
  shape.has_events = shape.has_samples = true;
  shape.gpus = 0;
  EXPECT_THAT(FakeTraining(shape).facts().missing, ElementsAre("no GPUs: no NVIDIA driver"));

  const FakeTraining cut;
  cut.fake_run().append("rank-0.jsonl", "{\"event\":\n");
  EXPECT_THAT(cut.facts().missing, ElementsAre("1 event line could not be parsed"));
  const JobFacts silent{.why_not = "cannot find sacct"};
  EXPECT_THAT(FakeTraining().facts(silent).missing,
              ElementsAre("no state of job 4711 from Slurm: cannot find sacct"));
  EXPECT_THAT(gather_facts(contract::RunDirectory("/nowhere"),
                           monitor::EventStore(contract::RunDirectory("/nowhere")),
                           {},
                           kStart)
                  .ending.sentence,
              HasSubstr("no state.json"));
}

TEST(RunFacts, TakeNumbersOfTheOutputForProgramsOfOthers) {
  Training shape;
  shape.has_events = false;
  const FakeTraining training(shape);
  for (int second = 1; second <= 40; ++second) {
    for (const auto& [name, value] :
         {std::pair{"step", 5.0 * second}, {"samples_per_second", 100.0 + second}}) {
      training.fake_run().append("output-0.jsonl",
                                 R"({"event":"metric","time":)" +
                                     std::to_string(1706693400 + second) + R"(,"rank":0,"name":")" +
                                     name + R"(","value":)" + std::to_string(value) + "}\n");
    }
  }
  const RunFacts facts = training.facts();

  EXPECT_FALSE(facts.is_trainer);
  EXPECT_TRUE(facts.speed.is_from_output);
  EXPECT_THAT(facts.speed.steps_per_second, near(5));
  EXPECT_THAT(facts.speed.samples_per_second, near(120.5));
  EXPECT_EQ(facts.split.ranks, 0);
}

TEST(RunFacts, GoOnOverFilesThatWerePutAsideAndOverRestarts) {
  Training shape;
  shape.attempt = 1;
  const FakeTraining training(shape);
  const auto file = training.fake_run().events() / "node-0.jsonl";
  std::filesystem::rename(file, file.string() + ".1");
  training.fake_run().append("node-0.jsonl", "");
  training.fake_run().start(0, kStart + 100, 8);
  for (int second = 101; second <= 110; ++second) {
    training.fake_run().append({.kind = "step",
                                .time = kStart + second,
                                .rank = 0,
                                .fields = {{"step", int64_t{10} * (second - 60)},
                                           {"data_seconds", 0.05},
                                           {"compute_seconds", 0.7}}});
  }
  const RunFacts facts = training.facts();

  EXPECT_EQ(facts.run.restarts, 1);
  EXPECT_DOUBLE_EQ(facts.sampled_seconds, 60);
  EXPECT_EQ(count_gpus(facts), 8);
  EXPECT_EQ(facts.run.ranks.at(0).totals.steps, 590 + 90);
  EXPECT_THAT(facts.run.ranks.at(0).totals.seconds, 70);
}

}  // namespace
}  // namespace lockstep::report
