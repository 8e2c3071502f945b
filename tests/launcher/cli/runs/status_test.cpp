// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/status.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/fake_runs.h"
#include "support/golden.h"

namespace lockstep::cli {
namespace {

using contract::RunPhase;
using testing::FakeRuns;

class Status : public ::testing::Test {
 protected:
  static constexpr double kNow = FakeRuns::kNow;

  // Replaces the directory, which differs from run to run.
  std::string plain(std::string text) const {
    const std::string here = runs.here().string();
    for (size_t at = text.find(here); at != std::string::npos; at = text.find(here)) {
      text.replace(at, here.size(), "HERE");
    }
    return text;
  }

  FakeRuns runs;
};

TEST_F(Status, OfManyIsATable) {
  contract::RunState state = FakeRuns::state("x");
  const auto running = runs.add("train-5", state);
  os::make_directories(running.events(0).parent_path());
  os::write_file(running.events(0),
                 "{\"event\":\"start\",\"time\":1,\"rank\":0,\"workers\":8}\n"
                 "{\"event\":\"step\",\"time\":2,\"rank\":0,\"step\":10,\"loss\":2.5}\n"
                 "{\"event\":\"step\",\"time\":3,\"rank\":0,\"step\":1200,\"epoch\":3,"
                 "\"loss\":0.123456,\"samples_per_second\":812.4}\n"
                 "{\"event\":\"checkpoint\",\"time\":4,\"rank\":0,\"step\":1200}\n"
                 "{\"event\":\"step\",\"time\":5,\"ra");
  state.started -= 100;
  state.updated = kNow - 45;
  runs.add("train-4", state);
  state.started -= 100;
  state.phase = RunPhase::Failed;
  state.attempt = 2;
  state.exit_code = 137;
  state.ended = state.started + 4000;
  runs.add("train-3", state);
  state.started -= 100;
  state.phase = RunPhase::Done;
  state.exit_code = 0;
  state.ended = state.started + 61;
  state.nodes.pop_back();
  state.world_size = 4;
  runs.add("a-run-with-a-longer-name", state);
  std::filesystem::last_write_time(runs.add("old").root(),
                                   std::filesystem::file_time_type::clock::from_sys(
                                       std::chrono::sys_seconds(std::chrono::seconds(1000))));

  testing::expect_golden(status_table(find_runs(runs.here()), kNow), "status_table.txt");
}

TEST_F(Status, OfAProgramThatPrintsItsStepsHasThem) {
  const auto run = runs.add("reported", FakeRuns::state("reported"));
  os::make_directories(run.output_metrics(0).parent_path());
  const auto metric = [](const char* name, const char* value) {
    return fmt::format(
        "{{\"event\":\"metric\",\"time\":1,\"rank\":0,\"name\":\"{}\",\"value\":{}}}\n",
        name,
        value);
  };
  os::write_file(run.output_metrics(0), metric("loss", "2.5") + metric("accuracy", "0.5"));
  EXPECT_THAT(status_page(read_run(run.root()), kNow),
              ::testing::HasSubstr("\nprogress   loss 2.5\n"));

  os::write_file(run.output_metrics(0),
                 metric("step", "19") + metric("loss", "2.5") + metric("loss", "0.25") +
                     "{\"event\":\"metric\",\"ti");

  const cli::Run reported = read_run(run.root());
  EXPECT_THAT(status_page(reported, kNow),
              ::testing::HasSubstr("\nprogress   step 19, loss 0.25\n"));
  EXPECT_THAT(status_json(reported, kNow), ::testing::HasSubstr("\"step\": 19"));
  EXPECT_THAT(status_table(std::span(&reported, 1), kNow), ::testing::HasSubstr("  19    0.25\n"));
}

TEST_F(Status, OfOneIsAPage) {
  contract::RunState state = FakeRuns::state("train-20240131-093000-beef");
  state.slurm_job = "815";
  const auto running = runs.add("train", state);
  os::make_directories(running.events(0).parent_path());
  os::write_file(running.events(0),
                 "{\"event\":\"step\",\"time\":3,\"rank\":0,\"step\":1200,"
                 "\"loss\":0.123456,\"samples_per_second\":812.4}\n");

  testing::expect_golden(plain(status_page(read_run(running.root()), kNow)), "status_page.txt");
  testing::expect_golden(plain(status_json(read_run(running.root()), kNow)), "status.json");
}

TEST_F(Status, IsHonestAboutALostRun) {
  contract::RunState state = FakeRuns::state("x");
  state.updated = kNow - 31;
  cli::Run run{.directory = contract::RunDirectory("x"), .name = "x", .state = state};
  EXPECT_EQ(state_sentence(run, kNow),
            "lost: the launcher does not respond (host node-a, last update 31.0 s ago)");
  EXPECT_EQ(state_word(run, kNow), "lost");

  run.state->launcher = os::own_identity();
  EXPECT_EQ(state_sentence(run, kNow), "running");
  run.state->launcher.start_time -= 1;
  EXPECT_EQ(state_sentence(run, kNow),
            "lost: the launcher no longer exists (host node-a, last update 31.0 s ago)");

  run.state.reset();
  EXPECT_EQ(state_sentence(run, kNow), "unknown: no state.json");
}

TEST_F(Status, OfAFailedRunNamesTheReport) {
  contract::RunState state = FakeRuns::state("x");
  state.phase = RunPhase::Failed;
  state.exit_code = 3;
  state.ended = kNow - 10;
  const auto failed = runs.add("train", state);
  os::write_file(failed.failure(), "{}");

  EXPECT_THAT(plain(status_page(read_run(failed.root()), kNow)),
              ::testing::EndsWith("exit code  3\nfailure    HERE/runs/train/failure.json\n"));
}

}  // namespace
}  // namespace lockstep::cli
