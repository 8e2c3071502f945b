// SPDX-License-Identifier: Apache-2.0
#include "train/ema.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "checkpoint/piece_sources.h"
#include "checkpoint/shard.h"
#include "comm/solo.h"
#include "lockstep/error.h"
#include "os/files.h"
#include "support/gang.h"
#include "train/small_training.h"

namespace lockstep::train {
namespace {

using ::testing::ThrowsMessage;

TEST(Ema, ForgetsTheFirstWeightsSoon) {
  SmallNet net;
  Ema ema(net, 0.999);
  torch::NoGradGuard no_grad;
  const torch::Tensor before = net.first->bias.detach().clone();
  net.first->bias.add_(1);

  ema.update();

  // d = 2 / 11 after one step.
  const torch::Tensor average = ema.tensors()[1].second;
  EXPECT_TRUE(average.allclose(before + 9.0 / 11, 1e-6, 1e-6));
}

TEST(Ema, LendsItsWeightsToTheModelForAWhile) {
  SmallNet net;
  Ema ema(net, 0.9);
  torch::NoGradGuard no_grad;
  const torch::Tensor first = flat(net);
  net.first->bias.add_(1);
  const torch::Tensor trained = flat(net);

  {
    const Ema::Scope scope(ema);
    EXPECT_TRUE(flat(net).equal(first));
  }

  EXPECT_TRUE(flat(net).equal(trained));
}

TEST(Ema, RefusesTheAveragesOfAnotherModel) {
  SmallNet net;
  Ema ema(net, 0.9);
  NamedTensors others = ema.tensors();
  others.pop_back();

  EXPECT_THAT([&] { ema.restore(others, 1); },
              ThrowsMessage<Error>("cannot resume: the averaged weights are of another model\n"
                                   "  missing: 'second.bias'  (checkpoint)"));
}

struct Trained {
  torch::Tensor weights;
  NamedTensors averages;
  double test_loss = 0;
};

Trained train_averaged(Communicator& comm,
                       const std::filesystem::path& directory,
                       const std::string& strategy,
                       int64_t epochs,
                       bool resumes = false) {
  Flags flags;
  flags.strategy = strategy;
  flags.ema = 0.8;
  flags.resume = resumes ? "auto" : "none";
  Session session = make_session(comm, directory, flags);
  SmallNet net;
  torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  Trainer trainer(session, {.epochs = epochs, .global_batch = 12});
  const TrainResult result = trainer.fit(net, sgd, points(100), points(40), CrossEntropy());
  const auto saved = find_latest_checkpoint(directory / "checkpoints");
  return {flat(net), checkpoint::read_all(*saved->pieces(), "ema."), *result.test_loss};
}

TEST(EmaTraining, IsTheSameUnderEveryStrategy) {
  comm::Solo solo;
  const os::TemporaryDirectory alone;
  const Trained single = train_averaged(solo, alone.path(), "single", 2);
  for (const std::string strategy : {"ddp", "horovod", "mirrored"}) {
    SCOPED_TRACE(strategy);
    const os::TemporaryDirectory directory;
    gang(2, [&](Communicator& comm) {
      const Trained shared = train_averaged(comm, directory.path(), strategy, 2);

      EXPECT_NEAR(shared.test_loss, single.test_loss, 1e-5);
      for (size_t i = 0; i < single.averages.size(); ++i) {
        EXPECT_TRUE(shared.averages[i].second.allclose(single.averages[i].second, 1e-5, 1e-6));
      }
    });
  }
}

TEST(EmaTraining, EvaluatesTheAverages) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  const Trained trained = train_averaged(solo, directory.path(), "single", 1);
  Session session = make_session(solo, directory.path());
  SmallNet net;
  apply_model(net, trained.averages, "ema.pt");
  Trainer trainer(session, {.global_batch = 12});

  EXPECT_NEAR(trainer.evaluate(net, points(40), CrossEntropy()).loss, trained.test_loss, 1e-6);
  EXPECT_FALSE(flat(net).allclose(trained.weights, 1e-3, 1e-3));
}

TEST(EmaTraining, ResumesBitForBit) {
  comm::Solo solo;
  const os::TemporaryDirectory whole;
  const os::TemporaryDirectory halves;
  const Trained once = train_averaged(solo, whole.path(), "single", 2);

  train_averaged(solo, halves.path(), "single", 1);
  const Trained resumed = train_averaged(solo, halves.path(), "single", 2, true);

  EXPECT_TRUE(resumed.weights.equal(once.weights));
  for (size_t i = 0; i < once.averages.size(); ++i) {
    EXPECT_TRUE(resumed.averages[i].second.equal(once.averages[i].second));
  }
}

TEST(EmaTraining, SaysThatACheckpointsNoteOfTheAveragesIsDamaged) {
  comm::Solo solo;
  for (const char* note : {"", "many", "12x", "-1", "99999999999999999999"}) {
    SCOPED_TRACE(note);
    const os::TemporaryDirectory directory;
    train_averaged(solo, directory.path(), "single", 1);
    const CheckpointReader good = *find_latest_checkpoint(directory.path() / "checkpoints");
    CheckpointState state = good.state();
    ++state.step;
    state.notes["ema_updates"] = note;
    const std::filesystem::path root = directory.path() / "checkpoints";
    const auto source = good.pieces();
    checkpoint::Draft draft(root, state.step);
    checkpoint::Snapshot snapshot;
    snapshot.take(as_pieces("", checkpoint::read_all(*source, "")));
    checkpoint::write_shard({root, draft.path(), state, 0, 1}, snapshot);
    checkpoint::complete({root, draft.path(), state, 0, 1}, draft, {});

    try {
      train_averaged(solo, directory.path(), "single", 2, true);
      ADD_FAILURE() << "no Error";
    } catch (const Error& fault) {
      EXPECT_EQ(fault.code(), ExitCode::Io);
      EXPECT_EQ(fault.what(),
                fmt::format("cannot resume: the checkpoint does not say how old its averages are\n"
                            "  found:    ema_updates '{}'  (checkpoint)\n"
                            "  expected: a whole number of at least 0\n"
                            "  try:      --resume with an older checkpoint, or without --ema",
                            note));
    }
  }
}

}  // namespace
}  // namespace lockstep::train
