// SPDX-License-Identifier: Apache-2.0
// Training that exceeds the time limit of a job, on a real Slurm that requeues jobs.
#include <gmock/gmock.h>
#include <map>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/contract/pace.h"
#include "launcher/slurm/workers.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class TimeLimit : public LaunchOnLab {
 protected:
  // A batch script like that of lockstep submit, with two workers per node. `before` runs first.
  std::string batch(const std::string& program,
                    const std::string& options = "",
                    const std::string& before = "") {
    return "#!/bin/bash\n#SBATCH --requeue\n#SBATCH --open-mode=append\n" + before + "exec " +
           lockstep() + " run --requeue --nproc-per-node 2 --run-dir run-$SLURM_JOB_ID " + options +
           " " + program + "\n";
  }

  std::string worker(const std::string& script) {
    return lab().write("worker.sh", "#!/bin/bash\n" + script + "\n");
  }

  fs::path run(const std::string& job) { return lab().path("run-" + job); }

  std::string output(const std::string& job) {
    return read_text(lab().path("job-" + job + ".out"));
  }

  // Sends the signal that Slurm sends before the limit of a job with --signal=B:USR1@SECONDS.
  void warn(const std::string& job) { lab().on("ctl", {"scancel", "-b", "--signal=USR1", job}); }

  std::string state(const std::string& job) {
    return lab().on("ctl", {"squeue", "-h", "-j", job, "-o", "%T"}).output;
  }

  bool is_pending(const std::string& job) {
    return comes_true(seconds(60), [&] { return state(job) == "PENDING\n"; });
  }

  // Slurm delays a requeued job until its credentials expire. This skips the delay.
  void hurry(const std::string& job) {
    ASSERT_TRUE(is_pending(job)) << state(job) << output(job);
    std::this_thread::sleep_for(seconds(1));
    lab().on("ctl", {"scontrol", "update", "JobId=" + job, "StartTime=now"});
  }

  bool all_here(const std::string& turn, int count = 4) {
    for (int rank = 0; rank < count; ++rank) {
      if (!lab().has_file("here-" + turn + "-" + std::to_string(rank))) {
        return false;
      }
    }
    return true;
  }
};

// A worker that creates a file per allocation and rank, and exits with 75 on SIGTERM.
constexpr const char* kObedient =
    "trap 'exit 75' TERM; touch here-$TORCHELASTIC_RESTART_COUNT-$RANK; "
    "while :; do sleep 0.05; done";

TEST_F(TimeLimit, LeavesTheLossCurveOfAnUninterruptedRun) {
  const fs::path mnist = fs::path(LOCKSTEP_BIN_DIR) / "mnist";
  if (!fs::exists(mnist)) {
    GTEST_SKIP() << "bin/mnist is not built";
  }
  fs::copy_file(mnist, lab().path("mnist"));
  const std::string program =
      "./mnist --generated-digits --net mlp --steps 600 --global-batch 64 --validate-every 50";
  // The script signals itself at the first evaluation, so steps remain even if scancel is slow.
  const std::string job =
      lab().submit({"-N2", "-w", "n[1-2]"},
                   batch(program,
                         "",
                         "[ -n \"$SLURM_RESTART_COUNT\" ] ||\n"
                         "  (until grep -qs evaluation run-$SLURM_JOB_ID/events/rank-0.jsonl; do "
                         "sleep 0.05; done\n"
                         "   kill -USR1 $$) &\n"));
  ASSERT_TRUE(comes_true(seconds(240),
                         [&] { return state(job) == "PENDING\n" && !losses_of(run(job)).empty(); }))
      << state(job) << output(job);

  // On the same nodes, while the other job is pending.
  const std::string reference = lab().submit({"-N2", "-w", "n[1-2]"}, batch(program));
  const JobEnd whole = lab().wait_for_job(reference, seconds(300));
  const JobEnd end = lab().wait_for_job(job, seconds(300));

  ASSERT_EQ(whole.state, "COMPLETED") << whole.output;
  ASSERT_EQ(end.state, "COMPLETED") << end.output;
  EXPECT_THAT(end.output,
              AllOf(HasSubstr("time limit near: stopped at step "),
                    HasSubstr("requeued as job " + job + " (restart 1)"),
                    HasSubstr("resumed at step ")));
  const std::map<int, double> expected = losses_of(run(reference));
  EXPECT_TRUE(contract::find_pace(contract::RunDirectory(run(job))).checkpoint_seconds)
      << "no checkpoint time was recorded";
  const std::map<int, double> found = losses_of(run(job));
  EXPECT_THAT(expected, SizeIs(::testing::Ge(12U)));
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [step, loss] : expected) {
    ASSERT_TRUE(found.contains(step)) << step;
    // The reducer of libtorch reorders its buckets after the first step. With Gloo, other buckets
    // change the last bits (docs/training.md).
    EXPECT_NEAR(found.at(step), loss, 1e-6 * loss) << "at step " << step;
  }
}

// Slurm checks limits every 30 s and can send the signal that much earlier; its shortest limit is
// one minute. So the signal arrives 25 to 55 s after the start, when the workers run, and Slurm
// ends nothing before its next check.
TEST_F(TimeLimit, IsHeardOfInTimeToSaveAndGoOn) {
  const std::string program = worker(
      "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || { echo going on; exit 0; }\n"
      "trap 'echo saved >>saved-$RANK; exit 75' TERM; while :; do sleep 0.1; done");
  const std::string job = lab().submit({"-N2", "-t", "1", "--signal=B:USR1@5"},
                                       batch(program, "--progress-file saved-0"));
  ASSERT_TRUE(lab().has_file("saved-3", seconds(120))) << output(job);
  hurry(job);
  const JobEnd end = lab().wait_for_job(job);

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  EXPECT_THAT(end.output,
              AllOf(HasSubstr("received SIGUSR1: the time limit is near; stopping 4 workers"),
                    HasSubstr("time limit near: stopped, requeued as job " + job + " (restart 1)"),
                    HasSubstr("going on")));
  for (const char* name : {"saved-0", "saved-1", "saved-2", "saved-3"}) {
    EXPECT_EQ(read_text(lab().path(name)), "saved\n") << name;
  }
  EXPECT_TRUE(fs::exists(run(job) / "logs/attempt-0/rank-3.log"));
  EXPECT_TRUE(fs::exists(run(job) / "logs/attempt-1/rank-3.log"));
}

TEST_F(TimeLimit, LetsAPythonProgramSaveAndGoOn) {
  const std::string program = lab().write("train.py", R"(#!/usr/bin/python3
import json, os, signal, sys, time

rank = os.environ["RANK"]
turn = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
state = {"step": 0, "turns": []}
if turn > 0:
    with open(f"state-{rank}.json") as file:
        state = json.load(file)
stopped = False


def stop(number, frame):
    global stopped
    stopped = True


signal.signal(signal.SIGTERM, stop)
state["turns"].append([turn, os.environ.get("SLURM_RESTART_COUNT", "")])
open(f"here-{turn}-{rank}", "w").close()
while state["step"] < 30 and not stopped or turn == 0 and not stopped:
    state["step"] += 1
    time.sleep(0.02)
with open(f"state-{rank}.json", "w") as file:
    json.dump(state, file)
sys.exit(75 if stopped else 0)
)");
  const std::string job =
      lab().submit({"-N2"}, batch("/usr/bin/python3 " + program, "--progress-file state-0.json"));
  ASSERT_TRUE(all_here("0")) << output(job);
  warn(job);
  hurry(job);
  const JobEnd end = lab().wait_for_job(job);

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  for (const char* rank : {"0", "3"}) {
    const auto state = nlohmann::json::parse(
        read_text(lab().path(std::string("state-") + rank + ".json")), nullptr, false);
    EXPECT_EQ(state.at("turns").dump(), R"([[0,""],[1,"1"]])");
  }
}

// docs/slurm.md contains these lines.
TEST_F(TimeLimit, IsPassedOnByAScriptThatHasMoreToDoAfterwards) {
  const std::string program =
      worker("[ $TORCHELASTIC_RESTART_COUNT = 0 ] || { echo going on; exit 0; }\n" +
             std::string(kObedient));
  const std::string job = lab().submit(
      {"-N2"},
      "#!/bin/bash\n#SBATCH --requeue\n#SBATCH --open-mode=append\n"
      "trap 'kill -USR1 \"$run\"' USR1\ntrap 'kill -TERM \"$run\" 2>/dev/null' TERM\n" +
          lockstep() + " run --requeue --nproc-per-node 2 --run-dir run-$SLURM_JOB_ID " + program +
          " &\n"
          "run=$!\n"
          "while kill -0 \"$run\" 2>/dev/null; do sleep 1; done\n"
          "trap '' USR1 TERM\n"
          "wait \"$run\"; code=$?\n"
          "trap : USR1; trap - TERM\n"
          "[ $code = 75 ] || touch afterwards-${SLURM_RESTART_COUNT:-0}\nexit $code\n");
  ASSERT_TRUE(all_here("0")) << output(job);
  warn(job);
  hurry(job);
  const JobEnd end = lab().wait_for_job(job);

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  EXPECT_THAT(end.output,
              AllOf(HasSubstr("time limit near: stopped, requeued as job " + job + " (restart 1)"),
                    HasSubstr("going on")));
  EXPECT_FALSE(fs::exists(lab().path("afterwards-0")));
  EXPECT_TRUE(fs::exists(lab().path("afterwards-1")));
}

TEST_F(TimeLimit, IsReachedTwiceAtMostWithoutProgress) {
  const std::string job = lab().submit({"-N1"}, batch(worker(kObedient)));
  ASSERT_TRUE(all_here("0", 2)) << output(job);
  warn(job);
  hurry(job);
  ASSERT_TRUE(all_here("1", 2)) << output(job);
  warn(job);
  const JobEnd end = lab().wait_for_job(job);

  EXPECT_EQ(end.state, "FAILED") << end.output;
  EXPECT_EQ(end.code, 75);
  EXPECT_THAT(end.output,
              HasSubstr("job " + job + " is not requeued: 2 allocations in a row saved nothing"));
}

TEST_F(TimeLimit, BringsNothingBackThatAUserCancels) {
  const std::string job = lab().submit({"-N2"}, batch(worker(kObedient)));
  ASSERT_TRUE(all_here("0")) << output(job);
  lab().on("ctl", {"scancel", job});
  const JobEnd end = lab().wait_for_job(job);

  EXPECT_EQ(end.state, "CANCELLED") << end.output;
  EXPECT_THAT(end.output, Not(HasSubstr("requeue")));
}

TEST_F(TimeLimit, BringsNothingBackThatLockstepCancels) {
  const std::string job = lab().submit({"-N2"}, batch(worker(kObedient)));
  ASSERT_TRUE(all_here("0")) << output(job);
  lab().on("n3", {lockstep(), "cancel", "run-" + job});
  const JobEnd end = lab().wait_for_job(job);

  EXPECT_EQ(end.state, "FAILED") << end.output;
  EXPECT_EQ(end.code, 75);
  EXPECT_THAT(end.output, Not(HasSubstr("requeue")));
}

// Slurm requeues such a job itself, and only once.
TEST_F(TimeLimit, IsNotTheOnlyEndAfterWhichAJobGoesOn) {
  const std::string job = lab().submit(
      {"-N2", "-w", "n[1-2]"},
      batch(worker("touch here-$TORCHELASTIC_RESTART_COUNT-$RANK\n"
                   "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || { echo going on; exit 0; }\n"
                   "trap 'exit 75' TERM; while :; do sleep 0.05; done")));
  ASSERT_TRUE(all_here("0")) << output(job);
  lab().on_as_root("ctl", {"scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test"});
  hurry(job);
  const JobEnd end = lab().wait_for_job(job);

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  EXPECT_THAT(end.output, AllOf(HasSubstr("DUE TO NODE FAILURE"), HasSubstr("going on")));
  EXPECT_THAT(lab().on("ctl", {"scontrol", "-o", "show", "job", job}).output,
              HasSubstr("Restarts=1 "));
}

// The launcher detects it long before Slurm.
TEST_F(TimeLimit, IsNotTheOnlyEndAfterWhichTheLauncherPutsAJobBack) {
  const std::string job = lab().submit(
      {"-N2", "-w", "n[1-2]"},
      batch(worker("touch here-$TORCHELASTIC_RESTART_COUNT-$RANK\n"
                   "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || { echo going on; exit 0; }\n"
                   "exec sleep 100"),
            "--grace 2"));
  ASSERT_TRUE(all_here("0")) << output(job);
  lab().on("n2", {"pkill", "-KILL", "-x", "-u", "hpc", "lockstep"});
  hurry(job);
  const JobEnd end = lab().wait_for_job(job);

  EXPECT_EQ(end.state, "COMPLETED") << end.output;
  EXPECT_THAT(end.output,
              AllOf(HasSubstr("n2 is lost"),
                    HasSubstr("code 75, requeued as job " + job + " (restart 1)"),
                    HasSubstr("going on")));
}

}  // namespace
}  // namespace lockstep::testing
