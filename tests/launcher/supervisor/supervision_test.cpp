// SPDX-License-Identifier: Apache-2.0
// The real launcher with small shell scripts as workers.
#include <chrono>
#include <csignal>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Not;

using Clock = std::chrono::steady_clock;

// Shown as one line, or as two if one is late.
auto IsSaidByBoth(const std::string& text) {
  return AnyOf(HasSubstr("[0-1]: " + text + "\n"),
               AllOf(HasSubstr("[0]: " + text + "\n"), HasSubstr("[1]: " + text + "\n")));
}

class Supervision : public ::testing::Test {
 protected:
  // Runs `script` in `workers` shells.
  Result run(int workers, const std::string& script, std::vector<std::string> options = {}) {
    return launcher.run(command(workers, script, std::move(options)));
  }

  static std::vector<std::string> command(int workers,
                                          const std::string& script,
                                          std::vector<std::string> options = {}) {
    std::vector<std::string> words = {
        "run", "--nproc-per-node", std::to_string(workers), "--run-dir", "run"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "sh", "-c", script});
    return words;
  }

  nlohmann::json failure() const {
    return nlohmann::json::parse(read_text(launcher.run_directory().failure()));
  }

  Launcher launcher;
};

TEST_F(Supervision, GivesEveryWorkerItsRank) {
  const Result result = run(
      2,
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR "
      "$TORCHELASTIC_RESTART_COUNT; test -n \"$MASTER_PORT\" && test -n \"$OMP_NUM_THREADS\" && "
      "test -n \"$LOCKSTEP_COMMAND_TIME\" && test -z \"$LOCKSTEP_TERMINAL_COLUMNS\" && "
      "test \"$EXTRA\" = 'a b' && test -d \"$LOCKSTEP_RUN_DIR\"",
      {"--env", "EXTRA=a b"});

  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(
      result.output,
      AllOf(HasSubstr("[0]: 0/2 0/2 0 127.0.0.1 0\n"), HasSubstr("[1]: 1/2 1/2 0 127.0.0.1 0\n")));
}

TEST_F(Supervision, KeepsThePlan) {
  run(1, "exit 0");

  const auto plan = nlohmann::json::parse(read_text(launcher.run_directory().plan()));
  EXPECT_EQ(plan.at("command").at(2), "exit 0");
  EXPECT_FALSE(std::filesystem::exists(launcher.run_directory().failure()));
}

TEST_F(Supervision, NamesADirectoryForTheRunWhereNoneIsGiven) {
  launcher.run({"run", "sh", "-c", "basename $LOCKSTEP_RUN_DIR > name"});

  const std::string name = split(read_text(launcher.path("name")), '\n').at(0);
  EXPECT_THAT(name, ::testing::StartsWith("sh-"));
  EXPECT_TRUE(std::filesystem::exists(launcher.path("runs") / name / "plan.json"));
}

TEST_F(Supervision, LeavesAsTheFirstFailedWorkerDid) {
  struct Case {
    const char* death;
    int code;
    const char* how;
  };
  const std::vector<Case> cases = {
      {"exit 3", 3, "exited with code 3"},
      {"exit 75", 75, "exited with code 75 (requests a restart)"},
      {"kill -KILL $$", 128 + SIGKILL, "was killed by SIGKILL"},
      {"kill -SEGV $$", 128 + SIGSEGV, "was killed by SIGSEGV"},
      {"kill -ABRT $$", 128 + SIGABRT, "was killed by SIGABRT"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.death);
    // Workers that are not stopped last longer than the time limit of the test.
    const Result result =
        run(3, std::string("[ $RANK = 1 ] || exec sleep 1000; echo last words; ") + one.death);

    EXPECT_EQ(result.status, (os::ExitStatus{.code = one.code, .signal = 0}));
    EXPECT_THAT(result.errors,
                AllOf(HasSubstr("rank 1 failed"),
                      HasSubstr(one.how),
                      HasSubstr("last words"),
                      HasSubstr("run/logs/attempt-0/rank-1.log")));
    EXPECT_EQ(failure().at("rank"), 1);
    EXPECT_EQ(failure().at("exit_code"), one.code);
    EXPECT_EQ(failure().at("last_lines").back(), "last words");
  }
}

TEST_F(Supervision, ForgetsAnEarlierFailureWhenTheRunSucceeds) {
  run(1, "exit 3");
  EXPECT_TRUE(std::filesystem::exists(launcher.run_directory().failure()));

  EXPECT_EQ(run(1, "exit 0").status.code, 0);
  EXPECT_FALSE(std::filesystem::exists(launcher.run_directory().failure()));
}

TEST_F(Supervision, StopsTheOthersGentlyThenFirmly) {
  const auto start = Clock::now();
  const Result result =
      run(3,
          "case $RANK in\n"
          "0) until [ -e ready-1 ] && [ -e ready-2 ]; do sleep 0.02; done; exit 4;;\n"
          "1) trap 'echo saved; exit 0' TERM;;\n"
          "2) trap '' TERM;;\n"
          "esac\n"
          "touch ready-$RANK; while :; do sleep 0.05; done",
          {"--grace", "0.5"});

  EXPECT_EQ(result.status.code, 4);
  EXPECT_THAT(Clock::now() - start, Gt(std::chrono::milliseconds(500)));
  EXPECT_THAT(result.output, HasSubstr("[1]: saved"));
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("rank 0 exited with code 4; stopping 2 workers (at most 0.5 s"),
                    Not(HasSubstr("rank 2 failed"))));
  EXPECT_EQ(failure().at("rank"), 0);
}

TEST_F(Supervision, PassesASignalOnAndWaits) {
  struct Case {
    int signal;
    const char* answer;
    int code;
  };
  const std::vector<Case> cases = {
      {SIGTERM, "exit 75", 75},
      {SIGINT, "exit 75", 75},
      {SIGTERM, "exit 0", 143},
      {SIGINT, "exit 1", 130},
      {SIGHUP, "exit 1", 143},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.answer);
    launcher.start(command(2,
                           std::string("trap 'echo stopped; ") + one.answer +
                               "' TERM; touch ready-$RANK; while :; do sleep 0.05; done"));
    launcher.wait_for_file("ready-0");
    launcher.wait_for_file("ready-1");

    launcher.process().signal(one.signal);
    const Result result = launcher.wait();

    EXPECT_EQ(result.status, (os::ExitStatus{.code = one.code, .signal = 0}));
    EXPECT_THAT(result.output, IsSaidByBoth("stopped"));
    EXPECT_THAT(result.errors, Not(HasSubstr("failed")));
    EXPECT_FALSE(std::filesystem::exists(launcher.run_directory().failure()));
    std::filesystem::remove(launcher.path("ready-0"));
    std::filesystem::remove(launcher.path("ready-1"));
  }
}

TEST_F(Supervision, GoesOnAfterAHangupUnderNohup) {
  launcher.write_script("nohup",
                        "#!/bin/sh\ntrap '' HUP\nexec " LOCKSTEP_BIN_DIR "/lockstep \"$@\"\n");
  launcher.executable = launcher.path("nohup").string();
  launcher.start(command(2, "touch ready-$RANK; until [ -e go ]; do sleep 0.02; done; echo end"));
  launcher.wait_for_file("ready-0");
  launcher.wait_for_file("ready-1");

  launcher.process().signal(SIGHUP);
  std::ofstream(launcher.path("go")) << "now\n";
  const Result result = launcher.wait();

  EXPECT_EQ(result.status.code, 0);
  EXPECT_THAT(result.output, IsSaidByBoth("end"));
}

TEST_F(Supervision, KillsAtOnceOnTheSecondInterrupt) {
  // The grace period is longer than the time limit of the test.
  launcher.start(
      command(2,
              "trap 'touch stopped-$RANK' TERM; touch ready-$RANK; while :; do sleep 0.05; done",
              {"--grace", "1000"}));
  launcher.wait_for_file("ready-0");
  launcher.wait_for_file("ready-1");

  launcher.process().signal(SIGINT);
  launcher.wait_for_file("stopped-0");
  launcher.process().signal(SIGINT);
  const Result result = launcher.wait();

  EXPECT_EQ(result.status.code, 130);
  EXPECT_THAT(result.errors, HasSubstr("SIGINT: killing all workers now"));
}

// The worker of a first run holds the port and starts a second run that needs it.
TEST_F(Supervision, RefusesAPortInUseBeforeAnyWorkerStarts) {
  const Result busy = launcher.run({"run",
                                    "--master-port",
                                    "29417",
                                    "python3",
                                    "-c",
                                    "import socket, subprocess, sys\n"
                                    "s = socket.socket()\n"
                                    "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                                    "s.bind(('127.0.0.1', 29417)); s.listen()\n"
                                    "sys.exit(subprocess.call([sys.argv[1], 'run', "
                                    "'--master-port', '29417', 'touch', 'started']))",
                                    LOCKSTEP_BIN_DIR "/lockstep"});

  EXPECT_EQ(busy.status.code, 69);
  EXPECT_THAT(busy.errors,
              HasSubstr("lockstep: error: cannot use port 29417: it is in use\n"
                        "  requested: 127.0.0.1:29417  (flag --master-port)\n"
                        "  found:     another program listens there  (this machine)\n"
                        "  try:       omit --master-port to use a free port"));
  EXPECT_FALSE(std::filesystem::exists(launcher.path("started")));
}

TEST_F(Supervision, SaysWhenTheRunDirectoryCannotBeMade) {
  std::ofstream(launcher.path("run")) << "a file\n";

  const Result result = run(1, "exit 0");

  EXPECT_EQ(result.status.code, 74);
  EXPECT_THAT(result.errors, HasSubstr("lockstep: error: cannot"));
}

TEST_F(Supervision, SaysWhyAProgramCannotBeExecuted) {
  launcher.write_script("broken", "#!/no/such/shell\n");

  const Result result = launcher.run({"run", "--run-dir", "run", "./broken"});

  EXPECT_EQ(result.status.code, 64);
  EXPECT_THAT(result.errors, HasSubstr("lockstep: error: cannot run './broken'"));
}

TEST_F(Supervision, RunsAPythonProgramWithItsArgumentsUntouched) {
  std::ofstream(launcher.path("train.py"))
      << "import os, sys; print(sys.argv[1:], os.environ['PYTHONUNBUFFERED'])\n";

  const Result result = launcher.run({"run", "train.py", "--grace", "x", "--", "a b", "--help"});

  EXPECT_EQ(result.status.code, 0);
  EXPECT_EQ(result.output, "['--grace', 'x', '--', 'a b', '--help'] 1\n");
}

TEST_F(Supervision, GivesWorkersNoInput) {
  const Result result = run(2, "cat; echo end");

  EXPECT_THAT(result.output, IsSaidByBoth("end"));
  EXPECT_THAT(result.status.code, 0);
}

}  // namespace
}  // namespace lockstep::testing
