// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/cancel.h"

#include <csignal>
#include <gmock/gmock.h>

#include "common/os/process.h"
#include "lockstep/error.h"
#include "support/fake_runs.h"

namespace lockstep::cli {
namespace {

using contract::RunPhase;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeRuns;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Cancel : public ::testing::Test {
 protected:
  // The time advances only in sleep(); `on_turn` plays the leader.
  void cancel(const CancelOptions& options) {
    run = runs.add("train", state);
    cancel_run(
        read_run(run.root()),
        options,
        {.now = [this] { return now; },
         .sleep =
             [this](std::chrono::milliseconds time) {
               now += std::chrono::duration<double>(time).count();
               on_turn();
             }},
        [this](const std::string& text) { printed.push_back(text); },
        [this](const std::string& text) { waited = text; });
  }

  FakeRuns runs;
  contract::RunDirectory run{runs.here()};
  contract::RunState state = FakeRuns::state("train");
  double now = FakeRuns::kNow;
  std::function<void()> on_turn = [] {
  };
  std::vector<std::string> printed;
  std::string waited;
};

TEST_F(Cancel, AsksTheLeaderAndWaitsForTheEnd) {
  on_turn = [this] {
    state.updated = now;
    const auto request = contract::find_cancel(run);
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->who, "me@login");
    EXPECT_FALSE(request->is_now);
    EXPECT_EQ(request->grace_seconds, 5);
    state.phase = RunPhase::Stopping;
    if (now > FakeRuns::kNow + 3) {
      state.phase = RunPhase::Cancelled;
      state.exit_code = 143;
    }
    contract::write_state(run, state);
  };

  cancel({.is_now = false, .grace_seconds = 5, .who = "me@login"});

  EXPECT_THAT(
      printed,
      ElementsAre("stopping train (at most 5 s)", "train has ended: cancelled (exit code 143)"));
  EXPECT_EQ(waited, "train: stopping, 3.0 s");
}

TEST_F(Cancel, HasNothingToDoForWhatHasEnded) {
  state.phase = RunPhase::Done;

  cancel({});

  EXPECT_THAT(printed, ElementsAre("train has already ended: done"));
  EXPECT_EQ(contract::find_cancel(run), std::nullopt);
}

TEST_F(Cancel, SaysThatTheLauncherIsGone) {
  state.launcher = os::own_identity();
  state.launcher.start_time -= 1;

  cancel({});

  EXPECT_THAT(printed,
              ElementsAre("train is lost: the launcher no longer exists (host node-a, last update "
                          "3.0 s ago)"));
}

TEST_F(Cancel, SignalsALauncherOfThisMachine) {
  os::Child child = os::start({.executable = "/bin/sleep",
                               .arguments = {"sleep", "60"},
                               .environment = {},
                               .stdout_fd = 1,
                               .stderr_fd = 2,
                               .inherited = {},
                               .directory = ""});
  state.launcher = os::own_identity();
  state.launcher.pid = child.pid();
  while (!os::is_alive(state.launcher)) {
    ++state.launcher.start_time;
  }
  on_turn = [&] {
    child.wait();
  };

  cancel({.is_now = true, .grace_seconds = {}, .who = ""});

  EXPECT_EQ(child.wait().signal, SIGQUIT);
  EXPECT_EQ(printed.front(), "killing train");
}

TEST_F(Cancel, CannotReachASilentLauncher) {
  state.updated = FakeRuns::kNow - 100;

  EXPECT_THAT([this] { cancel({}); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("cannot reach the launcher of train"),
                        HasSubstr("lost: the launcher does not respond (host node-a, last update "),
                        HasSubstr("train/cancel"),
                        HasSubstr("ssh node-a kill 4711"))));
  EXPECT_LT(now, FakeRuns::kNow + 15);
}

TEST_F(Cancel, GivesUpOnARunThatDoesNotEnd) {
  state.grace_seconds = 1;
  on_turn = [this] {
    state.updated = now;
    state.phase = RunPhase::Stopping;
    contract::write_state(run, state);
  };

  try {
    cancel({});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Unavailable);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("timed out waiting for train to stop"),
                      HasSubstr("stopping  (state.json)"),
                      HasSubstr("lockstep cancel --now train")));
  }
  EXPECT_GT(now, FakeRuns::kNow + state.grace_seconds);
}

TEST_F(Cancel, NeedsAState) {
  run = runs.add("old");

  EXPECT_THAT([this] { cancel_run(read_run(run.root()), {}, {}, {}, {}); },
              ThrowsMessage<Error>(HasSubstr("cannot cancel old")));
}

}  // namespace
}  // namespace lockstep::cli
