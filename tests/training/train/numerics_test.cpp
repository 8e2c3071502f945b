// SPDX-License-Identifier: Apache-2.0
//
// Tests numerics under every strategy: losses that are not finite, loss scales, averaged weights.
#include <gmock/gmock.h>
#include <limits>

#include "common/os/files.h"
#include "lockstep/error.h"
#include "support/run_workers.h"
#include "training/comm/solo.h"
#include "training/train/small_training.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Multiplies the loss by `factor` in step `step` (from 1) on rank `rank`, or everywhere (-1).
struct Spoiled {
  Communicator& comm;
  int64_t step = 1;
  int rank = -1;
  double factor = kNan;
  std::shared_ptr<int64_t> calls = std::make_shared<int64_t>(0);

  Loss operator()(SmallNet& model, const Batch& batch) const {
    Loss loss = CrossEntropy()(model, batch);
    if (++*calls == step && (rank < 0 || rank == comm.rank())) {
      loss.value = loss.value * factor;
    }
    return loss;
  }
};

struct Recipe {
  train::Flags flags = {};
  TrainerOptions options = {.epochs = 1, .global_batch = 10, .checkpoint_every = 3};
  double lr = 0.1;
  DatasetPtr test = nullptr;
};

template <typename Callable>
std::pair<torch::Tensor, TrainResult> train_small(Communicator& comm,
                                                  const std::filesystem::path& directory,
                                                  const Recipe& run,
                                                  Callable loss) {
  Session session = make_session(comm, directory, run.flags);
  SmallNet net;
  torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(run.lr).momentum(0.9));
  Trainer trainer(session, run.options);
  const TrainResult result = trainer.fit(net, sgd, points(100), run.test, loss);
  return {flat(net), result};
}

std::string last_checkpoint(const std::filesystem::path& directory) {
  return list_checkpoints(directory / "checkpoints").back().directory.string();
}

TEST(BadLoss, EndsTheTrainingAndNamesStepRankAndTheLastCheckpoint) {
  for (const std::string strategy : {"ddp", "horovod", "mirrored"}) {
    SCOPED_TRACE(strategy);
    const os::TemporaryDirectory directory;
    Recipe run;
    run.flags.strategy = strategy;

    EXPECT_THAT(
        [&] {
          run_workers(2, [&](Communicator& comm) {
            train_small(comm, directory.path(), run, Spoiled{comm, 5, 1});
          });
        },
        ThrowsMessage<Error>("cannot continue: the loss is nan at step 5 (first on rank 1)\n"
                             "  learning rate:   0.1\n"
                             "  precision:       fp32\n"
                             "  last checkpoint: " +
                             (directory.path() / "checkpoints" / "step-00000003").string() +
                             "\n"
                             "  try:             --lr 0.01, --clip 1"));
    EXPECT_THAT(last_checkpoint(directory.path()), HasSubstr("step-00000003"));
  }
}

TEST(BadLoss, IsNeverSavedEvenIfOnlyTheWeightsAreBad) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Recipe run;
  // The loss is finite but its gradient is not: the weights are bad after step 6, which saves a
  // checkpoint.
  const auto loss = [calls = std::make_shared<int64_t>(0)](SmallNet& model, const Batch& batch) {
    Loss result = CrossEntropy()(model, batch);
    if (++*calls == 6) {
      result.value = result.value + (model.first->weight.sum() * 0).sqrt();
    }
    return result;
  };

  EXPECT_THAT([&] { train_small(solo, directory.path(), run, loss); },
              ThrowsMessage<Error>(HasSubstr("cannot continue: the weights are not finite after "
                                             "step 6\n")));
  EXPECT_THAT(last_checkpoint(directory.path()), HasSubstr("step-00000003"));
}

TEST(BadLoss, IsFoundAtTheEndWithoutCheckpoints) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Recipe run;
  run.options.checkpoint_every = -1;

  EXPECT_THAT(
      [&] {
        train_small(solo, directory.path(), run, Spoiled{solo, 10});
      },
      ThrowsMessage<Error>(HasSubstr("the loss is nan at step 10 (first on rank 0)\n")));
}

TEST(LossScale, LeavesOutStepsThatOverflowAndCountsThem) {
  for (const std::string strategy : {"ddp", "horovod", "mirrored"}) {
    SCOPED_TRACE(strategy);
    run_workers(2, [&](Communicator& comm) {
      const os::TemporaryDirectory directory;
      Recipe run;
      run.flags.strategy = strategy;
      run.flags.loss_scale = "dynamic";

      const auto [weights, result] = train_small(comm, directory.path(), run, Spoiled{comm, 5, 1});

      EXPECT_EQ(result.steps, 10);
      EXPECT_EQ(result.skipped_steps, 1);
      EXPECT_TRUE(weights.isfinite().all().item<bool>());
      const torch::Tensor all = comm.all_gather(weights);
      EXPECT_TRUE(all[0].equal(all[1]));
    });
  }
}

TEST(LossScale, ChangesNothingWhereNothingOverflows) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Recipe run;
  run.options.clip_norm = 0.5;
  const torch::Tensor plain = train_small(solo, directory.path(), run, CrossEntropy()).first;
  run.flags.loss_scale = "1024";

  const torch::Tensor scaled = train_small(solo, directory.path(), run, CrossEntropy()).first;

  // A power of two does not change the mantissa.
  EXPECT_TRUE(scaled.equal(plain));
}

TEST(LossScale, GivesUpWhenNoScaleHelps) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Recipe run;
  run.options.epochs = 3;
  run.flags.loss_scale = "dynamic";
  const auto loss = [](SmallNet& model, const Batch& batch) {
    return Loss(CrossEntropy()(model, batch).value * kNan);
  };

  EXPECT_THAT([&] { train_small(solo, directory.path(), run, loss); },
              ThrowsMessage<Error>(HasSubstr(
                  "cannot continue: gradients overflow at the minimum loss scale 1 (step 20)")));
}

TEST(LossScale, GoesOnAfterAResume) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Recipe run;
  run.flags.loss_scale = "dynamic";
  train_small(solo, directory.path(), run, Spoiled{solo, 2});
  run.flags.resume = "auto";
  run.options.epochs = 2;

  const TrainResult result = train_small(solo, directory.path(), run, Spoiled{solo, 2}).second;

  EXPECT_EQ(result.skipped_steps, 2);
  EXPECT_EQ(CheckpointReader(last_checkpoint(directory.path())).state().notes.at("loss_scale"),
            "16384 8 0 2");
}

TEST(RecomputeFlag, IsRefusedByAProgramThatDoesNotAskForIt) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Recipe run;
  run.flags.recompute = true;

  EXPECT_THAT([&] { train_small(solo, directory.path(), run, CrossEntropy()); },
              ThrowsMessage<Error>(
                  "cannot use --recompute: the model of this program does not support it\n"
                  "  requested: --recompute  (command line)\n"
                  "  try:       omit --recompute, or pass Session::recompute() to the model"));
}

TEST(JpegFlag, IsRefusedByAProgramThatDoesNotAskForIt) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Recipe run;
  run.flags.jpeg = "gpu";

  EXPECT_THAT(
      [&] { train_small(solo, directory.path(), run, CrossEntropy()); },
      ThrowsMessage<Error>("cannot use --jpeg gpu: this program does not support it\n"
                           "  requested: --jpeg gpu  (command line)\n"
                           "  try:       omit --jpeg, or pass Session::jpeg() to the data set"));
}

}  // namespace
}  // namespace lockstep
