// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/runs.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "support/fake_runs.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using testing::FakeRuns;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Runs, AreListedFromTheNewest) {
  const FakeRuns runs;
  contract::RunState state = FakeRuns::state("b");
  state.started = 2000;
  runs.add("b", state);
  state.started = 3000;
  runs.add("a", state);
  state.started = 1000;
  runs.add("c", state);
  os::make_directories(runs.here() / "runs" / "no-run");

  const std::vector<cli::Run> found = find_runs(runs.here());

  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].name + found[1].name + found[2].name, "abc");
}

TEST(Runs, AreFoundByDirectoryNameOrId) {
  const FakeRuns runs;
  const contract::RunDirectory run = runs.add("train-1", FakeRuns::state("job-7"));

  for (const std::string& word : {std::string("runs/train-1"),
                                  std::string("runs/train-1/"),
                                  run.root().string(),
                                  std::string("train-1"),
                                  std::string("job-7"),
                                  std::string()}) {
    SCOPED_TRACE(word);
    EXPECT_EQ(run_named(word, runs.here()).name, "train-1");
  }
}

// A program that uses the library under srun, mpirun or torchrun writes only its events.
TEST(Runs, NeedNothingButEvents) {
  const FakeRuns runs;
  const contract::RunDirectory run(runs.here() / "runs" / "alone");
  os::make_directories(run.events());
  EXPECT_FALSE(is_run(run.root()));
  os::write_file(run.events() / "notes.txt", "no events");
  EXPECT_FALSE(is_run(run.root()));

  os::write_file(run.events(0), "");
  EXPECT_TRUE(is_run(run.root()));
  EXPECT_EQ(run_named("alone", runs.here()).name, "alone");
  EXPECT_EQ(run_named("", runs.here()).name, "alone");
  EXPECT_FALSE(run_named("runs/alone/", runs.here()).state);
}

TEST(Runs, MayStillBeToCome) {
  const FakeRuns runs;
  runs.add("train-1", FakeRuns::state("job-7"));
  EXPECT_EQ(coming_run("runs/later", runs.here()).name, "later");
  EXPECT_FALSE(coming_run("runs/later", runs.here()).state);
  EXPECT_TRUE(coming_run("runs/train-1", runs.here()).state);
  EXPECT_EQ(coming_run("", runs.here()).name, "train-1");
}

TEST(Runs, AreProposedWhenAWordMeansNone) {
  const FakeRuns runs;
  EXPECT_THAT([&] { run_named("", runs.here()); },
              ThrowsMessage<Error>(HasSubstr("cannot find a run below ./runs\n  searched: ")));

  runs.add("train-1");
  try {
    run_named("trian-1", runs.here());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("cannot find the run 'trian-1'"), HasSubstr("train-1")));
  }
  EXPECT_THAT([&] { run_named("something-else", runs.here()); },
              ThrowsMessage<Error>(HasSubstr("lockstep status, which lists all runs")));
}

TEST(Runs, OfAnOlderLockstepHaveNoState) {
  const FakeRuns runs;
  runs.add("old");

  EXPECT_FALSE(run_named("old", runs.here()).state.has_value());
}

}  // namespace
}  // namespace lockstep::cli
