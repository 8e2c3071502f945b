// SPDX-License-Identifier: Apache-2.0
// Allocations of a batch job, with a fake scontrol that records its arguments. tests/launcher/slurm
// has the same tests on a real Slurm.
#include <csignal>
#include <gmock/gmock.h>

#include "common/contract/requeue_record.h"
#include "common/contract/run_state.h"
#include "common/os/host.h"
#include "support/launcher.h"

namespace lockstep::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TurnsOfAJob : public ::testing::Test {
 protected:
  TurnsOfAJob() {
    std::filesystem::create_directory(launcher.path("bin"));
    set_scontrol("echo \"$@\" >>asked");
    launcher.write_script("bin/squeue", "#!/bin/sh\necho 1:00\n");
    launcher.environment["PATH"] =
        launcher.path("bin").string() + ":" + launcher.environment["PATH"];
    launcher.environment["SLURM_JOB_ID"] = "17";
    launcher.environment["SLURM_JOB_NODELIST"] = os::host_name();
    launcher.environment["SLURM_JOB_NUM_NODES"] = "1";
    launcher.environment["SLURM_TASK_PID"] = "1";
  }

  void set_scontrol(const std::string& script) {
    launcher.write_script("bin/scontrol", "#!/bin/sh\n" + script + "\n");
  }

  // One allocation of a job whose workers run `script`. The signal of Slurm arrives when both have
  // created `here-RANK`.
  Result turn(const std::string& script,
              const std::vector<std::string>& options = {},
              int signal = SIGUSR1) {
    launcher.write_script("worker", "#!/bin/bash\n" + script + "\n");
    std::filesystem::remove(launcher.path("here-0"));
    std::filesystem::remove(launcher.path("here-1"));
    std::vector<std::string> words = {
        "run", "--requeue", "--run-dir", "run", "--nproc-per-node", "2"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("./worker");
    launcher.start(words);
    if (signal != 0) {
      launcher.wait_for_file("here-0");
      launcher.wait_for_file("here-1");
      launcher.process().signal(signal);
    }
    Result result = launcher.wait();
    ++turns_;
    launcher.environment["SLURM_RESTART_COUNT"] = std::to_string(turns_);
    return result;
  }

  std::string asked() const { return read_text(launcher.path("asked")); }
  contract::RequeueRecord record() const {
    return contract::find_requeue_record(launcher.run_directory(), "17");
  }

  Launcher launcher;

 private:
  int turns_ = 0;
};

// Exits with 75 on SIGTERM, without saving anything.
constexpr const char* kObedient =
    "trap 'exit 75' TERM; echo attempt $TORCHELASTIC_RESTART_COUNT; touch here-$RANK; "
    "while :; do sleep 0.02; done";
// Saves and exits with 75 on SIGTERM.
constexpr const char* kSaving =
    "trap 'echo x >>saved; exit 75' TERM; touch here-$RANK; while :; do sleep 0.02; done";

TEST_F(TurnsOfAJob, EndWithTheJobInTheQueueAgain) {
  const Result result = turn(kSaving, {"--progress-file", "saved"});

  EXPECT_EQ(result.status.code, 75) << result.errors;
  EXPECT_EQ(asked(), "requeue 17\n");
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("received SIGUSR1: the time limit is near"),
                    HasSubstr("time limit near: stopped, requeued as job 17 (restart 1)")));
  EXPECT_EQ(record().requeues, 1);
  EXPECT_EQ(contract::find_state(launcher.run_directory())->phase, contract::RunPhase::Requeued);
}

TEST_F(TurnsOfAJob, KeepTheLogsOfEarlierOnesAndSoTellWorkersToGoOn) {
  turn(kObedient);
  turn("echo attempt $TORCHELASTIC_RESTART_COUNT", {}, 0);

  const contract::RunDirectory run = launcher.run_directory();
  EXPECT_THAT(read_text(run.log(0, 1)), StartsWith("attempt 0\n"));
  EXPECT_EQ(read_text(run.log(1, 1)), "attempt 1\n");
  EXPECT_EQ(contract::find_state(run)->phase, contract::RunPhase::Done);
  EXPECT_EQ(asked(), "requeue 17\n") << "a run that is done does not come back";
}

TEST_F(TurnsOfAJob, AreNoMoreThanTwoWithoutProgress) {
  EXPECT_THAT(turn(kObedient).errors, HasSubstr("requeued as job 17 (restart 1)"));
  const Result second = turn(kObedient);

  EXPECT_EQ(second.status.code, 75);
  EXPECT_THAT(second.errors,
              AllOf(HasSubstr("job 17 is not requeued: 2 allocations in a row saved nothing"),
                    HasSubstr("--progress-file")));
  EXPECT_EQ(asked(), "requeue 17\n");
  EXPECT_EQ(contract::find_state(launcher.run_directory())->phase, contract::RunPhase::Cancelled);
}

TEST_F(TurnsOfAJob, AreNoMoreThanAsked) {
  const std::vector<std::string> options = {"--max-requeues", "1", "--progress-file", "saved"};
  turn(kSaving, options);

  EXPECT_THAT(turn(kSaving, options).errors,
              HasSubstr("job 17 is not requeued: --max-requeues 1 is reached"));
  EXPECT_EQ(asked(), "requeue 17\n");
}

TEST_F(TurnsOfAJob, GoOnWithAProgramThatSavesButKnowsNothingOf75) {
  const Result result = turn(
      "trap 'echo x >>saved; exit 0' TERM; touch here-$RANK; while :; do sleep "
      "0.02; done",
      {"--progress-file", "saved"});

  EXPECT_EQ(result.status.code, 143);
  EXPECT_EQ(asked(), "requeue 17\n");
}

TEST_F(TurnsOfAJob, EndForGoodWhenAUserCancels) {
  const Result result = turn(kSaving, {"--progress-file", "saved"}, SIGTERM);

  EXPECT_EQ(result.status.code, 75);
  EXPECT_EQ(asked(), "");
  EXPECT_THAT(result.errors, Not(HasSubstr("requeue")));
}

TEST_F(TurnsOfAJob, EndForGoodWhenAUserCancelsWhileTheWorkersSave) {
  launcher.write_script("bin/squeue", "#!/bin/sh\necho 10:00\n");
  const std::string slow =
      "trap 'touch saving; until [ -e go ]; do sleep 0.02; done; echo x >>saved; exit 75' TERM; "
      "trap 'touch continued' CONT; touch here; while :; do sleep 0.02; done";
  launcher.write_script("worker", "#!/bin/bash\n" + slow + "\n");
  launcher.start({"run", "--requeue", "--run-dir", "run", "--progress-file", "saved", "./worker"});
  launcher.wait_for_file("here");
  launcher.process().signal(SIGUSR1);
  launcher.wait_for_file("saving");
  launcher.process().signal(SIGTERM);
  // The launcher passes this signal on to the worker, after SIGTERM: of the pending signals, it
  // reads the one with the smallest number first.
  launcher.process().signal(SIGCONT);
  launcher.wait_for_file("continued");
  std::ofstream(launcher.path("go")) << "now\n";

  EXPECT_EQ(launcher.wait().status.code, 75);
  EXPECT_EQ(asked(), "");
}

TEST_F(TurnsOfAJob, EndForGoodWhenAWorkerFails) {
  const Result result = turn("exit 3", {}, 0);

  EXPECT_EQ(result.status.code, 3);
  EXPECT_EQ(asked(), "");
}

TEST_F(TurnsOfAJob, TakeTheSignalThatIsAsked) {
  const Result result = turn(
      "trap 'echo passed' USR1; " + std::string(kObedient), {"--requeue-signal", "USR2"}, SIGUSR2);

  EXPECT_EQ(result.status.code, 75);
  EXPECT_EQ(asked(), "requeue 17\n");
}

TEST_F(TurnsOfAJob, SayWhenSlurmDoesNotTakeTheJobBack) {
  set_scontrol("echo 'Requested operation is presently disabled for job 17' >&2; exit 1");
  const Result result = turn(kObedient);

  EXPECT_EQ(result.status.code, 75);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("job 17 is not requeued: scontrol: 'Requested operation is "
                              "presently disabled for job 17'"),
                    HasSubstr("sbatch --requeue")));
  EXPECT_EQ(record().requeues, 0);
  EXPECT_FALSE(record().is_again);
}

// Slurm kills the job, including scontrol, as soon as it has the request.
TEST_F(TurnsOfAJob, AreOverWhenWhoAskedForTheNextIsKilled) {
  set_scontrol("echo \"$@\" >>asked; kill -TERM $$");
  const Result result = turn(kObedient);

  EXPECT_THAT(result.errors, HasSubstr("requeued as job 17"));
  EXPECT_EQ(asked(), "requeue 17\n");
  EXPECT_TRUE(record().is_again);
}

TEST_F(TurnsOfAJob, AskAgainWhenTheControllerIsBusy) {
  set_scontrol(
      "echo \"$@\" >>asked; [ -e busy ] || { touch busy; echo 'Unable to contact slurm "
      "controller (connect failure)' >&2; exit 1; }");
  const Result result = turn(kObedient);

  EXPECT_THAT(result.errors, HasSubstr("requeued as job 17"));
  EXPECT_EQ(asked(), "requeue 17\nrequeue 17\n");
}

TEST_F(TurnsOfAJob, SayWhenThereIsNoScontrol) {
  std::filesystem::remove(launcher.path("bin/scontrol"));
  for (const std::string name : {"sleep", "touch"}) {  // used by the workers
    std::filesystem::create_symlink(os::find_program(name, launcher.environment).value(),
                                    launcher.path("bin/" + name));
  }
  launcher.environment["PATH"] = launcher.path("bin").string();

  EXPECT_THAT(turn(kObedient).errors,
              HasSubstr("job 17 is not requeued: cannot find the program 'scontrol'"));
  EXPECT_FALSE(record().is_again);
  EXPECT_EQ(record().requeues, 0);
}

TEST_F(TurnsOfAJob, KillWorkersThatDoNotLeaveBeforeTheLimit) {
  launcher.write_script("bin/squeue", "#!/bin/sh\necho 0:06\n");  // five of them are reserved
  const Result result = turn("trap '' TERM; touch here-$RANK; while :; do sleep 0.02; done");

  EXPECT_EQ(result.status.code, 143);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("(at most 1 s"),
                    HasSubstr("job 17 is not requeued: the workers did not exit with code 75")));
}

}  // namespace
}  // namespace lockstep::testing
