// SPDX-License-Identifier: Apache-2.0
// The end of runs on several nodes: messages, exit codes, and no remaining processes, which the
// fixture checks after every test.
#include <chrono>
#include <gmock/gmock.h>

#include "launcher/slurm/workers.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

using Clock = std::chrono::steady_clock;

int count_of(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

class GoingDown : public LaunchOnLab {
 protected:
  // Command line of a run with two workers on each node of the allocation.
  Words command_line(const std::string& script, const Words& options = {}) {
    Words words = {lockstep(), "run", "--nproc-per-node", "2", "--run-dir", "run"};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(lab().write("worker.sh", "#!/bin/bash\n" + script + "\n"));
    return words;
  }

  // The run as a batch script.
  std::string batch(const std::string& script, const Words& options = {}) {
    std::string text = "#!/bin/bash\nexec";
    for (const std::string& word : command_line(script, options)) {
      text += " " + word;
    }
    return text + "\n";
  }

  // Starts the run from the login node.
  Running in_salloc(const std::string& nodes, const Words& words) {
    Words all = {"salloc", nodes};
    all.insert(all.end(), words.begin(), words.end());
    return lab().start("ctl", all);
  }

  // Whether all `count` workers have executed `touch here-$RANK`.
  bool all_here(int count) {
    for (int rank = 0; rank < count; ++rank) {
      if (!lab().has_file("here-" + std::to_string(rank))) {
        return false;
      }
    }
    return true;
  }

  // Sends a signal to the oldest process of the user with this name on a node.
  void send(const std::string& node, const std::string& signal, const std::string& name) {
    EXPECT_EQ(lab().on(node, {"pkill", "-" + signal, "-o", "-x", "-u", "hpc", name}).status.code,
              0);
  }
};

TEST_F(GoingDown, LeavesWithTheCodeOfTheWorkerThatFailed) {
  const JobEnd end = lab().run_job(
      {"-N2"}, batch("[ $RANK != 3 ] || { echo last words; exit 3; }; exec sleep 60"));

  EXPECT_EQ(end.state, "FAILED");
  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(end.output,
              AllOf(HasSubstr("rank 3 failed"),
                    HasSubstr("exited with code 3"),
                    HasSubstr("on n2"),
                    HasSubstr("last words"),
                    HasSubstr("run/logs/attempt-0/rank-3.log")));
  EXPECT_EQ(count_of(end.output, "rank 3 failed"), 1);
  EXPECT_EQ(failure_of(lab()).value("rank", -1), 3);
  EXPECT_EQ(failure_of(lab()).value("node", ""), "n2");
  EXPECT_EQ(failure_of(lab()).value("exit_code", -1), 3);
}

TEST_F(GoingDown, NamesTheSignalThatKilledAWorker) {
  const JobEnd end =
      lab().run_job({"-N2"}, batch("[ $RANK != 2 ] || kill -SEGV $$; exec sleep 60"));

  EXPECT_EQ(end.code, 139);
  EXPECT_THAT(end.output, AllOf(HasSubstr("rank 2 failed"), HasSubstr("SIGSEGV")));
}

TEST_F(GoingDown, SaysItOnceUnderSrun) {
  Words words = {"srun", "-N4"};
  const Words rest = command_line("[ $RANK != 5 ] || exit 9; exec sleep 60");
  words.insert(words.end(), rest.begin(), rest.end());

  const Result result = lab().on("ctl", words);

  EXPECT_EQ(result.status.code, 9);
  EXPECT_EQ(count_of(result.errors, "rank 5 failed"), 1) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("on n3"));
}

TEST_F(GoingDown, LeavesWithTheCodeOfATaskThatIsAWorker) {
  const Result result =
      lab().on("ctl",
               {"srun",
                "-N2",
                "--ntasks-per-node=2",
                "--kill-on-bad-exit=0",
                lockstep(),
                "run",
                lab().write("worker.sh", "#!/bin/bash\n[ $RANK != 3 ] || exit 9\n")});

  EXPECT_EQ(result.status.code, 9);
}

TEST_F(GoingDown, StopsTheOthersGentlyThenFirmly) {
  const JobEnd end = lab().run_job({"-N2"},
                                   batch("case $RANK in\n"
                                         "0) until [ -e here-1 ] && [ -e here-2 ] && [ -e here-3 "
                                         "]; do sleep 0.05; done; exit 4;;\n"
                                         "3) trap '' TERM;;\n"
                                         "*) trap 'echo saved $RANK; exit 0' TERM;;\n"
                                         "esac\n"
                                         "touch here-$RANK; while :; do sleep 0.05; done",
                                         {"--grace", "1"}));

  EXPECT_EQ(end.code, 4);
  EXPECT_THAT(end.output,
              AllOf(HasSubstr("saved 1"), HasSubstr("saved 2"), HasSubstr("rank 0 failed")));
}

TEST_F(GoingDown, KillsWhatItsWorkersLeaveBehind) {
  const JobEnd end =
      lab().run_job({"-N2"}, batch("setsid sleep 300 & (trap '' TERM; exec sleep 301) & exit 0"));

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  EXPECT_TRUE(lab().is_quiet());
}

TEST_F(GoingDown, StopsOnCtrlCAtTheLoginNode) {
  Running run = in_salloc("-N3",
                          command_line("trap 'echo sigterm $RANK; exit 0' TERM; touch here-$RANK; "
                                       "while :; do sleep 0.05; done"));
  ASSERT_TRUE(all_here(6)) << run.errors();

  send("ctl", "INT", "lockstep");
  const Result result = run.wait();

  EXPECT_EQ(result.status.code, 130) << result.errors;
  for (const char* rank : {"0", "1", "2", "3", "4", "5"}) {
    EXPECT_EQ(count_of(result.output, std::string("sigterm ") + rank), 1);
  }
}

TEST_F(GoingDown, PassesUserSignalsOn) {
  Running run = in_salloc("-N2",
                          command_line("trap 'echo usr1 $RANK' USR1; trap 'exit 0' USR2; "
                                       "touch here-$RANK; while :; do sleep 0.05; done"));
  ASSERT_TRUE(all_here(4)) << run.errors();

  send("ctl", "USR1", "lockstep");
  EXPECT_TRUE(comes_true(seconds(60), [&] { return count_of(run.output(), "usr1 ") == 4; }));
  send("ctl", "USR2", "lockstep");

  EXPECT_EQ(run.wait().status.code, 0);
}

// Slurm signals every process of a step, the workers as well as the agents. A duplicate of the
// first signal would arrive while the second one is sent and awaited.
TEST_F(GoingDown, PassesSignalsOfSlurmOnOnce) {
  const std::string job =
      lab().submit({"-N2"},
                   batch("trap 'echo usr1 $RANK' USR1; trap 'exit 0' USR2; touch here-$RANK; "
                         "while :; do sleep 0.05; done"));
  ASSERT_TRUE(all_here(4));

  for (const int sent : {1, 2}) {
    lab().on("ctl", {"scancel", "--signal=USR1", job});
    EXPECT_TRUE(comes_true(seconds(60), [&] {
      return count_of(read_text(lab().path("job-" + job + ".out")), "usr1 ") >= 4 * sent;
    }));
  }
  lab().on("ctl", {"scancel", "--full", "--signal=USR2", job});
  const JobEnd end = lab().wait_for_job(job);

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  for (const char* rank : {"0", "1", "2", "3"}) {
    EXPECT_EQ(count_of(end.output, std::string("usr1 ") + rank), 2) << end.output;
  }
}

TEST_F(GoingDown, StopsOnScancel) {
  const std::string job = lab().submit(
      {"-N2"},
      batch("trap 'echo sigterm $RANK; touch stopped-$RANK; exit 0' TERM; touch here-$RANK; "
            "while :; do sleep 0.05; done"));
  ASSERT_TRUE(all_here(4));

  lab().on("ctl", {"scancel", job});
  const JobEnd end = lab().wait_for_job(job);

  EXPECT_EQ(end.state, "CANCELLED");
  for (const char* name : {"stopped-0", "stopped-1", "stopped-2", "stopped-3"}) {
    EXPECT_TRUE(lab().has_file(name)) << name << "\n" << end.output;
  }
  EXPECT_THAT(end.output, Not(AnyOf(ContainsRegex("rank . failed"), HasSubstr("lockstep: error"))));
}

// Slurm checks limits every 30 s and can send the signal that much earlier; its shortest limit is
// one minute. So the signal arrives 25 to 55 s after the start, when the workers run.
TEST_F(GoingDown, HearsOfTheTimeLimitThenStops) {
  const std::string job =
      lab().submit({"-N2", "-t", "1", "--signal=USR1@5"},
                   batch("trap 'touch warned-$RANK' USR1; trap 'touch stopped-$RANK; exit 0' TERM; "
                         "touch here-$RANK; while :; do sleep 0.1; done"));
  ASSERT_TRUE(all_here(4));

  for (const char* name : {"warned-0", "warned-1", "warned-2", "warned-3"}) {
    EXPECT_TRUE(lab().has_file(name, seconds(120))) << name;
  }
  const JobEnd end = lab().wait_for_job(job);
  EXPECT_EQ(end.state, "TIMEOUT");
  for (const char* name : {"stopped-0", "stopped-1", "stopped-2", "stopped-3"}) {
    EXPECT_TRUE(lab().has_file(name)) << name << "\n" << end.output;
  }
}

TEST_F(GoingDown, EndsWithALimitOfItsOwn) {
  const JobEnd end =
      lab().run_job({"-N2"},
                    batch("trap 'echo sigterm $RANK; exit 0' TERM; while :; do sleep 0.05; done",
                          {"--timeout", "15"}));

  EXPECT_EQ(end.state, "FAILED");
  EXPECT_EQ(count_of(end.output, "sigterm "), 4) << end.output;
}

TEST_F(GoingDown, TakesItsWorkersAlongWhenKilled) {
  Running run = in_salloc("-N3",
                          command_line("trap '' TERM HUP; touch here-$RANK; "
                                       "while :; do sleep 0.05; done"));
  ASSERT_TRUE(all_here(6)) << run.errors();

  lab().on("ctl", {"pkill", "-KILL", "-x", "-u", "hpc", "lockstep"});
  run.wait();

  EXPECT_TRUE(lab().is_quiet());
}

TEST_F(GoingDown, NamesTheNodeWhoseAgentWasKilled) {
  Running run = in_salloc("-N3", command_line("touch here-$RANK; exec sleep 60"));
  ASSERT_TRUE(all_here(6)) << run.errors();

  lab().on("n2", {"pkill", "-KILL", "-x", "-u", "hpc", "lockstep"});
  const Result result = run.wait();

  EXPECT_NE(result.status.code, 0);  // the workers themselves end with 0
  EXPECT_THAT(result.errors, HasSubstr("n2"));
}

TEST_F(GoingDown, NamesTheNodeThatCrashed) {
  Running run =
      in_salloc("-N3", command_line("touch here-$RANK; exec sleep 100", {"--grace", "2"}));
  ASSERT_TRUE(all_here(6)) << run.errors();

  const auto start = Clock::now();
  lab().tool("crash", {"n2"});
  EXPECT_TRUE(comes_true(seconds(60), [&] {
    return lab().processes("n1").empty() && lab().processes("n3").empty();
  })) << "workers of the other nodes continue";
  RecordProperty(
      "milliseconds_to_stop",
      std::to_string(
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count()));
  lab().tool("boot", {"n2"});
  const Result result = run.wait();

  EXPECT_NE(result.status.code, 0);
  EXPECT_THAT(result.errors, HasSubstr("n2"));
}

TEST_F(GoingDown, NamesTheNodeThatLostItsCable) {
  Running run =
      in_salloc("-N2", command_line("touch here-$RANK; exec sleep 100", {"--grace", "2"}));
  ASSERT_TRUE(all_here(4)) << run.errors();

  lab().tool("cut", {"n2"});
  EXPECT_TRUE(comes_true(seconds(60), [&] { return lab().processes("n1").empty(); }))
      << "workers of the other node continue";
  EXPECT_TRUE(comes_true(seconds(60), [&] { return lab().processes("n2").empty(); }))
      << "workers of the lost node continue";
  lab().tool("join", {"n2"});
  const Result result = run.wait();

  EXPECT_NE(result.status.code, 0);
  EXPECT_THAT(result.errors, HasSubstr("n2"));
}

TEST_F(GoingDown, BeginsAgainOnAllNodes) {
  const JobEnd end = lab().run_job(
      {"-N2"},
      batch("echo $RANK $TORCHELASTIC_RESTART_COUNT >>seen-$RANK; echo $MASTER_PORT >>ports\n"
            "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0\n"
            "[ $RANK = 3 ] || exec sleep 60\n"
            "until [ -e seen-0 ] && [ -e seen-1 ] && [ -e seen-2 ]; do sleep 0.05; done; exit 7",
            {"--max-restarts", "2"}));

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  for (const char* rank : {"0", "1", "2", "3"}) {
    EXPECT_EQ(read_text(lab().path(std::string("seen-") + rank)),
              std::string(rank) + " 0\n" + rank + " 1\n");
  }
}

TEST_F(GoingDown, IsSeenHeardAndEndedFromAnotherNode) {
  Running run =
      in_salloc("-N2", command_line("echo hello from $RANK; touch here-$RANK; exec sleep 100"));
  ASSERT_TRUE(all_here(4)) << run.errors();

  const Result status = lab().on("n4", {lockstep(), "status", "run"});
  EXPECT_EQ(status.status.code, 0) << status.errors;
  EXPECT_THAT(status.output, AllOf(HasSubstr("n1"), HasSubstr("n2")));
  EXPECT_THAT(lab().on("n4", {lockstep(), "logs", "run", "--rank", "3"}).output,
              HasSubstr("hello from 3"));
  EXPECT_EQ(lab().on("n4", {lockstep(), "cancel", "run"}).status.code, 0);

  EXPECT_NE(run.wait().status.code, 0);
}

}  // namespace
}  // namespace lockstep::testing
