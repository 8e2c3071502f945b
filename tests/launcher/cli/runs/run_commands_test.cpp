// SPDX-License-Identifier: Apache-2.0
// status, logs and cancel on real runs.
#include <csignal>
#include <future>
#include <gmock/gmock.h>

#include "common/contract/run_state.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class RunCommands : public ::testing::Test {
 protected:
  // Starts two workers that create a file each and run until they are stopped.
  void start_workers(const std::string& script) {
    launcher.start({"run",
                    "--nproc-per-node",
                    "2",
                    "--run-dir",
                    "runs/train",
                    "--grace",
                    "20",
                    "sh",
                    "-c",
                    script});
    launcher.wait_for_file("here-0");
    launcher.wait_for_file("here-1");
    launcher.wait_for_file("runs/train/state.json");
  }

  os::CommandResult lockstep(const std::string& words) const {
    return os::run_command(
        {"sh",
         "-c",
         "cd " + launcher.path("").string() + " && " + launcher.executable + " " + words});
  }

  contract::RunState state() const {
    return contract::find_state(contract::RunDirectory(launcher.path("runs/train"))).value();
  }

  Launcher launcher;
};

TEST_F(RunCommands, ShowARunThatRunsAndStopIt) {
  start_workers("echo hello; touch here-$RANK; exec sleep 60");

  EXPECT_THAT(lockstep("status").output, HasSubstr("\ntrain  running  "));
  EXPECT_THAT(lockstep("status train").output, HasSubstr("workers    2 on 1 node\n"));
  EXPECT_EQ(lockstep("logs").output, "[0-1]: hello\n");

  const os::CommandResult cancelled = lockstep("cancel");
  EXPECT_EQ(cancelled.status.code, 0);
  EXPECT_EQ(cancelled.errors,
            "lockstep: stopping train (at most 20 s)\n"
            "lockstep: train has ended: cancelled (exit code 143)\n");
  EXPECT_EQ(launcher.wait().status.code, 143);
  EXPECT_EQ(state().phase, contract::RunPhase::Cancelled);
  EXPECT_EQ(lockstep("cancel train").errors, "lockstep: train has already ended: cancelled\n");
}

TEST_F(RunCommands, KillWorkersThatIgnoreSigterm) {
  start_workers("trap '' TERM; touch here-$RANK; while :; do sleep 0.1; done");

  EXPECT_EQ(lockstep("cancel --now").status.code, 0);

  EXPECT_EQ(state().phase, contract::RunPhase::Cancelled);
  launcher.wait();
}

TEST_F(RunCommands, GiveAGraceOfTheirOwn) {
  start_workers("trap '' TERM; touch here-$RANK; while :; do sleep 0.1; done");

  EXPECT_EQ(lockstep("cancel --grace 0.5").status.code, 0);

  EXPECT_THAT(
      launcher.wait().errors,
      AllOf(HasSubstr("cancelled by "),
            HasSubstr("the grace period of lockstep cancel is over: killing all workers now")));
}

TEST_F(RunCommands, FollowTheLogsToTheEndOverAllAttempts) {
  launcher.start(
      {"run",
       "--max-restarts",
       "1",
       "--run-dir",
       "runs/train",
       "sh",
       "-c",
       "echo attempt $TORCHELASTIC_RESTART_COUNT; touch here-0; "
       "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || { until [ -e go ]; do sleep 0.02; done; exit 3; }; "
       "sleep 0.4; printf done"});
  launcher.wait_for_file("here-0");

  auto follower = std::async(std::launch::async, [&] { return lockstep("logs -f | tee shown"); });
  EXPECT_TRUE(comes_true([&] { return read_text(launcher.path("shown")) == "attempt 0\n"; }));
  std::ofstream(launcher.path("go")) << "now\n";
  const os::CommandResult followed = follower.get();

  EXPECT_EQ(followed.output, "attempt 0\nattempt 1\ndone\n");
  EXPECT_EQ(followed.errors, "lockstep: attempt 1\nlockstep: train has ended: done\n");
  EXPECT_EQ(launcher.wait().status.code, 0);
}

TEST_F(RunCommands, TellThatALauncherIsGone) {
  start_workers("touch here-$RANK; exec sleep 60");
  // The guard cleans up and exits; state.json keeps the last state that the agent has written.
  ::kill(state().launcher.pid, SIGKILL);
  launcher.wait();

  EXPECT_THAT(
      lockstep("status train").output,
      HasSubstr("lost: the launcher no longer exists (host " + state().host + ", last update "));
  const os::CommandResult cancelled = lockstep("cancel");
  EXPECT_EQ(cancelled.status.code, 0);
  EXPECT_THAT(cancelled.errors, HasSubstr("train is lost: the launcher no longer exists"));
  EXPECT_THAT(lockstep("logs -f").errors, HasSubstr("train is no longer followed: lost"));
}

TEST_F(RunCommands, TellProgramsTheExitCode) {
  launcher.run({"run", "--run-dir", "runs/train", "sh", "-c", "exit 7"});

  const std::string json = lockstep("status --json train").output;

  EXPECT_THAT(json, AllOf(HasSubstr("\"status\": \"failed\""), HasSubstr("\"exit_code\": 7")));
}

TEST_F(RunCommands, ProposeTheRunThatWasMeant) {
  launcher.run({"run", "--run-dir", "runs/train", "true"});

  for (const std::string command : {"status", "logs", "cancel"}) {
    const os::CommandResult result = lockstep(command + " trian");
    EXPECT_EQ(result.status.code, 64);
    EXPECT_THAT(result.errors,
                AllOf(HasSubstr("cannot find the run 'trian'"), EndsWith(" train\n")));
  }
}

}  // namespace
}  // namespace lockstep::testing
