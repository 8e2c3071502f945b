// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/step_sync.h"

#include <cmath>
#include <gmock/gmock.h>
#include <limits>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/utils.h>

#include "common/os/files.h"
#include "support/run_workers.h"
#include "training/comm/solo.h"
#include "training/train/small_training.h"

namespace lockstep::train {
namespace {

// The outcome of a step with one sample.
StepOutcome outcome_of(double loss) {
  StepOutcome outcome;
  outcome.losses.emplace_back(Loss(torch::tensor(loss)),
                              Batch{torch::zeros({1, 8}), torch::zeros({1}, torch::kInt64)});
  return outcome;
}

// One worker of a training of SmallNet that has no checkpoints.
struct SyncedWorker {
  SyncedWorker(Communicator& comm, const std::filesystem::path& directory)
      : session(make_session(comm, directory)),
        optimizer(net.parameters(), 0.1),
        task{.model = net, .optimizer = optimizer, .train = nullptr, .test = nullptr, .loss = {}},
        strategy(make_strategy(comm.size() == 1 ? "single" : "ddp", comm)),
        checkpoints(SessionAccess::parts(session), options, task, callbacks),
        sync(SessionAccess::parts(session), *strategy, net, checkpoints) {}

  SmallNet net;
  Session session;
  TrainerOptions options = {.checkpoint_every = -1};
  torch::optim::SGD optimizer;
  Task task;
  CheckpointDriver::Callbacks callbacks;
  std::unique_ptr<Strategy> strategy;
  CheckpointDriver checkpoints;
  StepSync sync;
};

TEST(StepSync, AveragesTheLossesSinceTheLastExchange) {
  const os::TemporaryDirectory directory;
  comm::Solo solo;
  SyncedWorker worker(solo, directory.path());
  worker.sync.begin_epoch();
  worker.sync.add(outcome_of(2), 0);
  worker.sync.add(outcome_of(4), 1);

  EXPECT_DOUBLE_EQ(worker.sync.exchange(2, false).loss, 3);
  worker.sync.add(outcome_of(9), 2);
  EXPECT_DOUBLE_EQ(worker.sync.exchange(3, false).loss, 9);
  worker.sync.finish_epoch();
  EXPECT_DOUBLE_EQ(worker.sync.epoch_loss(), 5);
}

TEST(StepSync, IgnoresTheLossOfASkippedStep) {
  const os::TemporaryDirectory directory;
  comm::Solo solo;
  SyncedWorker worker(solo, directory.path());
  StepOutcome skipped = outcome_of(std::numeric_limits<double>::infinity());
  skipped.is_applied = false;
  worker.sync.add(skipped, 0);

  const StepSyncResult result = worker.sync.exchange(1, false);
  EXPECT_FALSE(result.has_samples);
  EXPECT_FALSE(result.bad_loss);
}

TEST(StepSync, NamesTheFirstBadLossOfAllWorkers) {
  const os::TemporaryDirectory directory;
  run_workers(2, [&](Communicator& comm) {
    SyncedWorker worker(comm, directory.path());
    for (int64_t step = 0; step < 4; ++step) {
      const bool is_bad = step >= (comm.rank() == 0 ? 3 : 2);
      worker.sync.add(outcome_of(is_bad ? std::nan("") : 1), step);
    }

    const StepSyncResult result = worker.sync.exchange(4, false);
    EXPECT_TRUE(result.bad_loss);
    EXPECT_EQ(result.bad_loss.value_or(BadLoss{}).step, 3);
    EXPECT_EQ(result.bad_rank, 1);
  });
}

TEST(StepSync, ChecksTheWeightsOnRequest) {
  const os::TemporaryDirectory directory;
  comm::Solo solo;
  SyncedWorker worker(solo, directory.path());
  worker.strategy->adopt(worker.net, worker.optimizer);
  EXPECT_FALSE(worker.sync.exchange(1, true).bad_weights);
  EXPECT_EQ(worker.sync.checked_step(), 1);
  {
    const torch::NoGradGuard no_grad;
    worker.net.first->weight[0][0] = std::nan("");
  }

  EXPECT_FALSE(worker.sync.exchange(2, false).bad_weights);
  EXPECT_EQ(worker.sync.checked_step(), 1);
  EXPECT_TRUE(worker.sync.exchange(3, true).bad_weights);
}

TEST(StepSync, ReturnsANormOnce) {
  const os::TemporaryDirectory directory;
  comm::Solo solo;
  SyncedWorker worker(solo, directory.path());
  StepOutcome outcome = outcome_of(1);
  outcome.norm = 0.5;
  worker.sync.add(outcome, 0);

  EXPECT_EQ(worker.sync.take_gradient_norm(), 0.5);
  EXPECT_EQ(worker.sync.take_gradient_norm(), std::nullopt);
}

}  // namespace
}  // namespace lockstep::train
