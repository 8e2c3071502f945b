// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/ema.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "lockstep/error.h"
#include "support/run_workers.h"
#include "training/checkpoint/piece_sources.h"
#include "training/checkpoint/shard.h"
#include "training/comm/solo.h"
#include "training/train/small_training.h"

namespace lockstep::train {
namespace {

using ::testing::ThrowsMessage;

// A model that a Strategy has adopted, and the average of its weights.
struct Averaged {
  explicit Averaged(double decay) : ema(net, adopt(), decay) {}

  Strategy& adopt() {
    strategy->adopt(net, sgd);
    return *strategy;
  }

  // The averages in the form of a checkpoint.
  NamedTensors saved() const {
    NamedTensors tensors;
    for (const TensorPiece& piece : ema.pieces()) {
      tensors.emplace_back(piece.name, piece.values);
    }
    return tensors;
  }

  comm::Solo solo;
  SmallNet net;
  torch::optim::SGD sgd{net.parameters(), 0.1};
  std::unique_ptr<Strategy> strategy = make_strategy("single", solo, {});
  Ema ema;
};

TEST(Ema, ForgetsTheFirstWeightsSoon) {
  Averaged averaged(0.999);
  torch::NoGradGuard no_grad;
  const torch::Tensor before = averaged.net.first->bias.detach().clone();
  averaged.net.first->bias.add_(1);

  averaged.ema.update();

  // d = 2 / 11 after one step.
  const auto [name, average] = averaged.saved()[1];
  EXPECT_EQ(name, "ema.first.bias");
  EXPECT_TRUE(average.allclose(before + 9.0 / 11, 1e-6, 1e-6));
}

TEST(Ema, LendsItsWeightsToTheModelForAWhile) {
  for (const bool ends : {true, false}) {  // false: an exception
    Averaged averaged(0.9);
    torch::NoGradGuard no_grad;
    const torch::Tensor first = flat(averaged.net);
    averaged.net.first->bias.add_(1);
    const torch::Tensor trained = flat(averaged.net);

    {
      Ema::Scope scope(averaged.ema);
      EXPECT_TRUE(flat(averaged.net).equal(first));
      if (ends) {
        scope.end();
      }
    }

    EXPECT_TRUE(flat(averaged.net).equal(trained));
  }
}

TEST(Ema, RefusesTheAveragesOfAnotherModel) {
  Averaged averaged(0.9);
  NamedTensors others = averaged.saved();
  others.pop_back();

  EXPECT_THAT([&] { averaged.ema.restore(*checkpoint::hold_tensors(others, "memory"), 1); },
              ThrowsMessage<Error>("cannot resume: the averaged weights belong to another model\n"
                                   "  missing: 'second.bias'  (checkpoint)"));
}

// Two layers with shared weights, one with frozen weights, and buffers.
struct OddNet : torch::nn::Module {
  OddNet() {
    torch::NoGradGuard no_grad;
    torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{9});
    for (torch::Tensor& parameter : parameters()) {
      parameter.copy_(torch::randn(parameter.sizes(), generator) * 0.3);
    }
    again->weight = again->register_parameter("weight", first->weight);
    frozen->weight.set_requires_grad(false);
  }

  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor hidden = torch::relu(norm(first(torch::relu(first(input)))));
    return last(frozen(hidden) + torch::linear(hidden, again->weight));
  }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 8));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  struct Again : torch::nn::Module {
    torch::Tensor weight;
  };
  std::shared_ptr<Again> again = register_module("again", std::make_shared<Again>());
  torch::nn::Linear frozen = register_module("frozen", torch::nn::Linear(8, 8));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(8, 4));
};

struct Trained {
  torch::Tensor weights;
  NamedTensors averages;
  double test_loss = 0;
};

struct Way {
  std::string strategy = "single";
  int stage = 0;
  std::string precision = "fp32";
  bool sync_batchnorm = false;
};

template <typename Net = SmallNet>
Trained train_averaged(Communicator& comm,
                       const std::filesystem::path& directory,
                       const Way& way,
                       int64_t epochs,
                       bool resumes = false) {
  Flags flags;
  flags.strategy = way.strategy;
  flags.ema = 0.8;
  flags.precision = way.precision;
  flags.sync_batchnorm = way.sync_batchnorm;
  flags.resume = resumes ? "auto" : "none";
  Session session = make_session(comm, directory, flags);
  Net net;
  torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  TrainerOptions options{.epochs = epochs, .global_batch = 12};
  options.strategy.zero.stage = way.stage;
  options.strategy.zero.persistence_threshold = 5;
  Trainer trainer(session, options);
  const TrainResult result = trainer.fit(net, sgd, points(100), points(40), CrossEntropy());
  const auto saved = find_latest_checkpoint(directory / "checkpoints");
  return {flat(net), checkpoint::read_all(*saved->pieces(), "ema."), *result.test_loss};
}

void expect_same(const NamedTensors& found, const NamedTensors& wanted, double bound) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(found[i].first, wanted[i].first);
    EXPECT_TRUE(found[i].second.allclose(wanted[i].second, bound, bound)) << wanted[i].first;
  }
}

const std::vector<Way>& ways() {
  static const std::vector<Way> kWays = {{"ddp"},
                                         {"horovod"},
                                         {"mirrored"},
                                         {"deepspeed", 0},
                                         {"deepspeed", 1},
                                         {"deepspeed", 2},
                                         {"deepspeed", 3}};
  return kWays;
}

TEST(EmaTraining, IsTheSameUnderEveryStrategy) {
  comm::Solo solo;
  const os::TemporaryDirectory alone;
  const Trained single = train_averaged(solo, alone.path(), {}, 2);
  for (const Way& way : ways()) {
    SCOPED_TRACE(way.strategy + std::to_string(way.stage));
    const os::TemporaryDirectory directory;
    run_workers(2, [&](Communicator& comm) {
      const Trained shared = train_averaged(comm, directory.path(), way, 2);

      EXPECT_NEAR(shared.test_loss, single.test_loss, 1e-5);
      EXPECT_TRUE(shared.weights.allclose(single.weights, 1e-5, 1e-6));
      expect_same(shared.averages, single.averages, 1e-5);
    });
  }
}

TEST(EmaTraining, KnowsTiedAndFrozenWeightsThatAreCutUp) {
  comm::Solo solo;
  const os::TemporaryDirectory alone;
  const Trained whole = train_averaged<OddNet>(solo, alone.path(), {}, 2);
  for (const int stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    const os::TemporaryDirectory cut;
    run_workers(3, [&](Communicator& comm) {
      const Trained shared = train_averaged<OddNet>(
          comm, cut.path(), {"deepspeed", stage, "fp32", /*sync_batchnorm=*/true}, 2);

      EXPECT_NEAR(shared.test_loss, whole.test_loss, 1e-5);
      expect_same(shared.averages, whole.averages, 1e-5);
    });
  }
}

// Four numbers are trained, and the others are frozen.
struct FrozenNet : SmallNet {
  FrozenNet() {
    for (torch::Tensor& parameter : parameters()) {
      parameter.set_requires_grad(parameter.is_same(second->bias));
    }
  }
};

TEST(EmaTraining, GoesWithWorkersThatUpdateNothing) {
  comm::Solo solo;
  const os::TemporaryDirectory alone;
  const Trained whole = train_averaged<FrozenNet>(solo, alone.path(), {}, 2);
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const os::TemporaryDirectory cut;
    run_workers(6, [&](Communicator& comm) {
      const Trained shared = train_averaged<FrozenNet>(comm, cut.path(), {"deepspeed", stage}, 2);

      EXPECT_NEAR(shared.test_loss, whole.test_loss, 1e-5);
      expect_same(shared.averages, whole.averages, 1e-5);
    });
  }
}

// The averages are those of the master weights, not of the bfloat16 parameters.
TEST(EmaTraining, AveragesInFloat32WhatIsTrainedInBfloat16) {
  const os::TemporaryDirectory directory;
  run_workers(2, [&](Communicator& comm) {
    const Trained trained = train_averaged(comm, directory.path(), {"deepspeed", 2, "bf16"}, 2);

    for (const auto& [name, average] : trained.averages) {
      EXPECT_EQ(average.scalar_type(), torch::kFloat32);
      EXPECT_FALSE(average.equal(average.to(torch::kBFloat16).to(torch::kFloat32))) << name;
    }
  });
}

TEST(EmaTraining, GoesOnUnderAnotherStrategy) {
  comm::Solo solo;
  const os::TemporaryDirectory whole;
  const Trained once = train_averaged(solo, whole.path(), {}, 2);
  const Way cut{"deepspeed", 3};
  for (const auto& [first, second] : {std::pair(Way{"ddp"}, cut), std::pair(cut, Way{"ddp"})}) {
    SCOPED_TRACE(first.strategy + " to " + second.strategy);
    const os::TemporaryDirectory halves;
    run_workers(
        3, [&, &way = first](Communicator& comm) { train_averaged(comm, halves.path(), way, 1); });
    run_workers(2, [&, &way = second](Communicator& comm) {
      const Trained resumed = train_averaged(comm, halves.path(), way, 2, true);

      EXPECT_NEAR(resumed.test_loss, once.test_loss, 1e-5);
      expect_same(resumed.averages, once.averages, 1e-5);
    });
  }
}

TEST(EmaTraining, EvaluatesTheAverages) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  const Trained trained = train_averaged(solo, directory.path(), {}, 1);
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
  const Trained once = train_averaged(solo, whole.path(), {}, 2);

  train_averaged(solo, halves.path(), {}, 1);
  const Trained resumed = train_averaged(solo, halves.path(), {}, 2, true);

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
    train_averaged(solo, directory.path(), {}, 1);
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
      train_averaged(solo, directory.path(), {}, 2, true);
      ADD_FAILURE() << "no Error";
    } catch (const Error& fault) {
      EXPECT_EQ(fault.code(), ExitCode::Io);
      EXPECT_EQ(fault.what(),
                fmt::format("cannot resume: invalid update count of the averaged weights\n"
                            "  found:    ema_updates '{}'  (checkpoint)\n"
                            "  expected: an integer of at least 0\n"
                            "  try:      --resume DIR with an older checkpoint, or omit --ema",
                            note));
    }
  }
}

}  // namespace
}  // namespace lockstep::train
