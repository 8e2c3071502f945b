// SPDX-License-Identifier: Apache-2.0
//
// Tests several real processes, started like a user starts them.
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>

#include "common/os/command.h"
#include "common/os/files.h"
#include "distributed/drift_lines.h"
#include "lockstep/checkpoint.h"
#include "training/comm/mpi.h"
#include "training/comm/process_group.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLockstep = LOCKSTEP_BIN_DIR "/lockstep";
const std::string kMnist = LOCKSTEP_BIN_DIR "/mnist";
const std::string kOwnLoop = LOCKSTEP_BIN_DIR "/own_loop";
const std::string kScripts = LOCKSTEP_SOURCE_DIR "/tests/distributed/scripts";
const std::string kWorker = LOCKSTEP_TEST_DIR "/distributed_worker";

// Runs a shell command in a temporary directory.
class Shell : public ::testing::Test {
 protected:
  os::CommandResult sh(const std::string& line) {
    return os::run_command({"/bin/bash", "-c", line}, {.directory = directory_.path()});
  }

  os::CommandResult launch(int workers, const std::string& program) {
    return sh(
        fmt::format("{} run --nproc-per-node {} --run-dir run -- {}", kLockstep, workers, program));
  }

  // Trains briefly on generated digits.
  std::string short_mnist(const std::string& more = "") const {
    return fmt::format("{} --generated-digits --net mlp --epochs 1 {}", kMnist, more);
  }

  std::filesystem::path path() const { return directory_.path(); }

 private:
  os::TemporaryDirectory directory_;
};

class Transport : public Shell, public ::testing::WithParamInterface<std::tuple<std::string, int>> {
 protected:
  bool is_here() {
    const std::string& transport = std::get<0>(GetParam());
    return transport == "gloo"  ? comm::has_gloo()
           : transport == "mpi" ? comm::has_mpi() && sh("command -v mpirun").status.is_success()
                                : true;
  }

  os::CommandResult start(const std::string& task) {
    const auto& [transport, workers] = GetParam();
    if (transport == "mpi") {
      return sh(fmt::format(
          "mpirun --allow-run-as-root --oversubscribe -np {} {} --do {}", workers, kWorker, task));
    }
    return launch(workers, fmt::format("{} --do {} --transport {}", kWorker, task, transport));
  }
};

TEST_P(Transport, KeepsEveryPromiseOfACommunicator) {
  if (!is_here()) {
    GTEST_SKIP() << "this build or machine has no " << std::get<0>(GetParam());
  }
  const os::CommandResult result = start("collectives");

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output,
              HasSubstr(fmt::format("collectives over {} are right", std::get<0>(GetParam()))));
}

TEST_P(Transport, TrainsAsOneProcessDoes) {
  if (!is_here()) {
    GTEST_SKIP() << "this build or machine has no " << std::get<0>(GetParam());
  }
  const os::CommandResult result = start("drift");

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  expect_small_drift(result.output);
}

// With every transport that communicates on a separate thread over a network.
TEST_P(Transport, GoesOnWhenAWorkerHasNoMoreBatches) {
  if (!is_here()) {
    GTEST_SKIP() << "this build or machine has no " << std::get<0>(GetParam());
  }
  const int last = std::get<1>(GetParam()) - 1;
  for (const std::string flags :
       {"", "--no-overlap", "--compression fp16", "--compression powersgd --powersgd-start 1"}) {
    const os::CommandResult result = start("run-out-of-batches " + flags);

    EXPECT_EQ(result.status.code, 0) << flags << result.output << result.errors;
    EXPECT_THAT(result.output,
                HasSubstr(fmt::format("rank {} joined last, parameters are identical", last)))
        << flags;
  }
}

INSTANTIATE_TEST_SUITE_P(Every,
                         Transport,
                         ::testing::Values(std::tuple("shared-memory", 2),
                                           std::tuple("shared-memory", 3),
                                           std::tuple("shared-memory", 4),
                                           std::tuple("gloo", 2),
                                           std::tuple("gloo", 3),
                                           std::tuple("gloo", 4),
                                           std::tuple("mpi", 2),
                                           std::tuple("mpi", 3)),
                         [](const auto& each) {
                           std::string name = std::get<0>(each.param);
                           std::erase(name, '-');
                           return name + std::to_string(std::get<1>(each.param));
                         });

using Processes = Shell;

TEST_F(Processes, TrainUnderTheLauncherAndLeaveARunDirectory) {
  const os::CommandResult result = launch(2, short_mnist("-s ddp"));

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("test accuracy"), HasSubstr("epoch   train loss")));
  for (const char* file : {"plan.json",
                           "logs/attempt-0/rank-0.log",
                           "logs/attempt-0/rank-1.log",
                           "events/rank-0.jsonl",
                           "events/rank-1.jsonl"}) {
    EXPECT_TRUE(std::filesystem::exists(path() / "run" / file)) << file;
  }
  EXPECT_THAT(sh("grep '\"event\":\"start\"' run/events/rank-0.jsonl").output,
              HasSubstr("\"gradient_bytes\":"));
  EXPECT_EQ(list_checkpoints(path() / "run" / "checkpoints").size(), 1U);
}

TEST_F(Processes, TrainUnderMpirunAlone) {
  if (!comm::has_mpi() || !sh("command -v mpirun").status.is_success()) {
    GTEST_SKIP() << "this build or machine has no mpi";
  }
  const os::CommandResult result =
      sh("mpirun --allow-run-as-root --oversubscribe -np 2 " + short_mnist("-s ddp"));

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("on 2 workers (mpi)"), HasSubstr("test accuracy")));
}

TEST_F(Processes, TrainAlone) {
  const os::CommandResult result = sh(short_mnist());

  EXPECT_EQ(result.status.code, 0) << result.output << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("-s single on 1 worker"), HasSubstr("test accuracy")));
}

// The result of a user error: the exit code, one message, and no remaining process.
struct Mistake {
  const char* name;
  const char* arguments;
  int code;
  const char* message;
};

class BadInput : public Shell, public ::testing::WithParamInterface<Mistake> {};

TEST_P(BadInput, EndsWithOneMessage) {
  const Mistake& mistake = GetParam();
  const os::CommandResult result = launch(2, fmt::format("{} {}", kMnist, mistake.arguments));

  EXPECT_EQ(result.status.code, mistake.code) << result.output << result.errors;
  EXPECT_THAT(result.errors, HasSubstr(mistake.message));
  EXPECT_THAT(result.errors, HasSubstr("lockstep: error: "));
  EXPECT_EQ(sh(fmt::format("pgrep -f {}", (path() / "run").string())).output, "");
}

INSTANTIATE_TEST_SUITE_P(
    Every,
    BadInput,
    ::testing::Values(
        Mistake{"NoDataDirectory", "--data-dir nowhere", 74, "lockstep data fetch mnist"},
        Mistake{"UnknownStrategy",
                "-s ddpp",
                64,
                "available: single, ddp, horovod, deepspeed, mirrored"},
        Mistake{"EmptyBatch",
                "--generated-digits --batch-size 0",
                64,
                "--batch-size 0 is out of range"},
        Mistake{"SingleOnTwoWorkers",
                "--generated-digits -s single",
                64,
                "-s single supports one worker, not 2"},
        Mistake{"MomentumOfAdam",
                "--generated-digits --optimizer adam --momentum 0.9",
                64,
                "cannot use --momentum with adam"},
        Mistake{"NoneAndSome",
                "--generated-digits --no-checkpoint --keep 2",
                64,
                "--no-checkpoint conflicts with --keep"},
        Mistake{"MisspeltOption", "--epoch 3", 64, "try:   --epochs"}),
    [](const auto& each) { return each.param.name; });

TEST_F(Processes, SayWhichRanksHoldDifferentModels) {
  const os::CommandResult result = launch(2, kWorker + " --do another-model");

  EXPECT_EQ(result.status.code, 64);
  EXPECT_THAT(result.errors, HasSubstr("ranks 0 and 1 have different models"));
}

TEST_F(Processes, WithALoopOfTheirOwnTrainAtEveryStage) {
  std::ofstream(path() / "ds.json") << R"({"bf16": {"enabled": true},
    "zero_optimization": {"stage": 2}})";
  for (const char* flags : {"-s deepspeed --zero-stage 3",
                            "--deepspeed --deepspeed_config ds.json",
                            "-s horovod --precision bf16"}) {
    const os::CommandResult result = launch(2, kOwnLoop + " " + flags);
    EXPECT_EQ(result.status.code, 0) << flags << result.errors;
    EXPECT_THAT(result.output, HasSubstr("test accuracy 0.9")) << flags;
  }
}

TEST_F(Processes, OfTheExamplesTrainWithMuon) {
  for (const std::string& program : {short_mnist("--steps 3 --no-validation"), kOwnLoop}) {
    const os::CommandResult result =
        launch(2, program + " --optimizer muon -s deepspeed --zero-stage 1");
    EXPECT_EQ(result.status.code, 0) << program << result.errors;
  }
}

TEST_F(Processes, WithALoopOfTheirOwnRefuseWhatTheTrainerDoes) {
  std::ofstream(path() / "ds.json") << R"({"gradient_clipping": 1})";
  for (const auto& [flags, what] : {std::pair("--epochs 1", "--epochs"),
                                    std::pair("--clip 1", "--clip"),
                                    std::pair("--resume auto", "--resume"),
                                    std::pair("--deepspeed_config ds.json", "gradient_clipping")}) {
    const os::CommandResult result = sh(kOwnLoop + " " + flags);
    EXPECT_EQ(result.status.code, 64) << flags;
    EXPECT_THAT(
        result.errors,
        HasSubstr(fmt::format("cannot use {}: this program has a custom training loop", what)));
  }
  EXPECT_THAT(sh(kOwnLoop + " --recompute").errors, HasSubstr("--recompute had no effect"));
}

TEST_F(Processes, RefuseCorruptData) {
  std::filesystem::create_directories(path() / "data" / "mnist");
  for (const char* file : {"train-images-idx3-ubyte",
                           "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte",
                           "t10k-labels-idx1-ubyte"}) {
    std::ofstream(path() / "data" / "mnist" / file) << "this is no IDX file";
  }
  const os::CommandResult result = launch(2, kMnist);

  EXPECT_EQ(result.status.code, 74) << result.errors;
  EXPECT_THAT(result.errors, AllOf(HasSubstr("it is not an IDX file"), HasSubstr("byte:     0")));
}

TEST_F(Processes, TellThatThePortIsTaken) {
  const os::CommandResult result =
      sh(fmt::format("{}/take_port.py {} run --nproc-per-node 2 --master-port PORT -- {} "
                     "--generated-digits",
                     kScripts,
                     kLockstep,
                     kMnist));

  EXPECT_EQ(result.status.code, 69) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("in use"));
}

TEST_F(Processes, EndAtOnceOnSigtermWhileTheyWaitForTheOthers) {
  const os::CommandResult result =
      sh(fmt::format("{}/stop_while_joining.py {} --generated-digits", kScripts, kMnist));

  EXPECT_EQ(result.status.code, 128 + SIGTERM) << result.errors;
}

TEST_F(Processes, WarnWhenTheReferenceBlasIsLinked) {
  const std::string found =
      sh("ldconfig -p | grep -q openblas && ls -d /usr/lib/*/blas | head -n 1").output;
  if (found.empty()) {
    GTEST_SKIP() << "OpenBLAS and the reference BLAS are not both installed";
  }
  const os::CommandResult result = sh(fmt::format("LD_LIBRARY_PATH={} {} --steps 2 --no-validation",
                                                  found.substr(0, found.find('\n')),
                                                  short_mnist()));

  EXPECT_EQ(result.status.code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("the reference BLAS is linked, which is up to 8x slower"));
}

// A worker that waits for the lost one hangs here until the time limit of the test.
TEST_F(Processes, EndTogetherWhenOneIsKilled) {
  for (const std::string transport : {"shared-memory", "gloo"}) {
    SCOPED_TRACE(transport);
    if (transport == "gloo" && !comm::has_gloo()) {
      continue;
    }
    const os::CommandResult result =
        launch(3, fmt::format("{} --do lose-a-peer --transport {}", kWorker, transport));

    EXPECT_EQ(result.status.code, 128 + SIGKILL) << result.errors;
    EXPECT_THAT(result.errors, AllOf(HasSubstr("rank 2"), HasSubstr("SIGKILL")));
    EXPECT_THAT(result.errors, Not(HasSubstr("lockstep: error: cannot finish")));
    EXPECT_EQ(sh("pgrep -f 'lose-a-pee[r]'").output, "");
  }
}

// Sends SIGTERM to the launcher during training and resumes with --resume auto. The parameters must
// be those of an uninterrupted training.
TEST_F(Processes, StopAtAStepOnSigtermAndGoOnBitForBit) {
  const std::string program = fmt::format(
      "{} --generated-digits --net cnn --epochs 1 --conv im2col --device cpu --resume auto",
      kMnist);
  const os::CommandResult stopped =
      sh(fmt::format("{}/stop_at_first_step.sh run {} run --nproc-per-node 2 --run-dir run -- {}",
                     kScripts,
                     kLockstep,
                     program));
  EXPECT_EQ(stopped.status.code, 75) << stopped.output << stopped.errors;
  EXPECT_THAT(stopped.output + stopped.errors, HasSubstr("stopped at step"));
  ASSERT_EQ(list_checkpoints(path() / "run" / "checkpoints").size(), 1U);

  const os::CommandResult resumed = launch(2, program);
  EXPECT_EQ(resumed.status.code, 0) << resumed.output << resumed.errors;
  const os::CommandResult whole =
      sh(fmt::format("{} run --nproc-per-node 2 --run-dir whole -- {}", kLockstep, program));
  EXPECT_EQ(whole.status.code, 0) << whole.output << whole.errors;

  const NamedTensors a = load_weights(path() / "run" / "model.pt");
  const NamedTensors b = load_weights(path() / "whole" / "model.pt");
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i].second.equal(b[i].second)) << a[i].first;
  }
}

TEST_F(Processes, FindOutBeforeTheFirstStepThatCheckpointsCannotBeWritten) {
  std::filesystem::create_directories(path() / "run" / "checkpoints");
  if (!sh("mount -t tmpfs -o ro tmpfs run/checkpoints").status.is_success()) {
    GTEST_SKIP() << "a read-only tmpfs cannot be mounted here (needs root)";
  }
  const os::CommandResult result = launch(2, short_mnist());
  sh("umount run/checkpoints");

  EXPECT_EQ(result.status.code, 74) << result.output << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("Read-only file system"));
  EXPECT_THAT(result.output + result.errors, Not(HasSubstr("epoch 1/1")));
}

TEST_F(Processes, KeepTheLastCheckpointWhenTheDiskIsFull) {
  std::filesystem::create_directories(path() / "small");
  if (!sh("mount -t tmpfs -o size=3m tmpfs small").status.is_success()) {
    GTEST_SKIP() << "a small tmpfs cannot be mounted here (needs root)";
  }
  const os::CommandResult result = sh(fmt::format(
      "{} run --nproc-per-node 2 --run-dir small/run -- {} --generated-digits --net mlp --epochs 4 "
      "--checkpoint-every 30 --keep 9",
      kLockstep,
      kMnist));
  const auto kept = list_checkpoints(path() / "small" / "run" / "checkpoints");

  EXPECT_EQ(result.status.code, 74) << result.output << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("not enough free space"));
  EXPECT_FALSE(kept.empty());
  for (const CheckpointEntry& entry : kept) {
    EXPECT_NO_THROW(CheckpointReader reader(entry.directory));
  }
  EXPECT_EQ(sh("ls -A small/run/checkpoints | grep -c partial").output, "0\n");
  sh("umount small");
}

}  // namespace
}  // namespace lockstep
