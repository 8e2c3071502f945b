// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/checkpointing.h"

#include <chrono>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "common/os/files.h"
#include "lockstep/error.h"
#include "support/run_workers.h"
#include "support/small_files.h"
#include "training/comm/solo.h"
#include "training/train/small_training.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Outcome {
  torch::Tensor weights;
  std::string error;
  int code = 0;
};

// Trains the small network; an exception is part of the outcome.
Outcome train(Communicator& comm,
              const std::filesystem::path& directory,
              const TrainerOptions& options,
              const std::string& resume = "none",
              std::unique_ptr<Callback> callback = nullptr) {
  Flags flags;
  flags.resume = resume;
  Session session = make_session(comm, directory, flags);
  SmallNet net;
  const auto optimizer = session.make_optimizer(net.parameters(), {.name = "adam", .lr = 0.01});
  Trainer trainer(session, options);
  if (callback != nullptr) {
    trainer.add(std::move(callback));
  }
  try {
    trainer.fit(net, *optimizer, points(96), points(40), CrossEntropy());
  } catch (const Error& error) {
    return {flat(net), error.what(), static_cast<int>(error.code())};
  }
  return {flat(net), "", 0};
}

class AtStep final : public Callback {
 public:
  AtStep(int64_t step, std::function<void()> action) : step_(step), action_(std::move(action)) {}
  void on_step(const TrainState& state) override {
    if (state.step == step_) {
      action_();
    }
  }

 private:
  int64_t step_;
  std::function<void()> action_;
};

class Noted final : public Callback {
 public:
  explicit Noted(std::vector<int64_t>& steps) : steps_(steps) {}
  void on_checkpoint(const TrainState& state, const std::string& directory) override {
    EXPECT_EQ(CheckpointReader(directory).state().step, state.step);
    steps_.push_back(state.step);
  }

 private:
  std::vector<int64_t>& steps_;
};

TEST(Checkpoints, LeaveWeightsForPeopleAtTheEnd) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  const Outcome trained =
      train(solo, directory.path(), {.epochs = 2, .global_batch = 12, .ema = 0.5});

  EXPECT_EQ(trained.error, "");
  SmallNet net;
  apply_model(net, load_weights(directory.path() / "model.pt"), "model.pt");
  EXPECT_TRUE(flat(net).equal(trained.weights));
  const NamedTensors averages = load_weights(directory.path() / "ema.pt");
  const NamedTensors best = load_weights(directory.path() / "best.pt");
  ASSERT_EQ(averages.size(), best.size());
  EXPECT_EQ(averages[0].first, best[0].first);
}

TEST(Checkpoints, AreAnnouncedWhenTheyAreCompleteOnEveryWorker) {
  for (const bool async : {true, false}) {
    const os::TemporaryDirectory directory;
    run_workers(2, [&](Communicator& comm) {
      std::vector<int64_t> steps;
      const Outcome trained = train(comm,
                                    directory.path(),
                                    {.global_batch = 12,
                                     .checkpoint_every = 3,
                                     .keep_checkpoints = 9,
                                     .checkpoint_async = async},
                                    "none",
                                    std::make_unique<Noted>(steps));
      EXPECT_EQ(trained.error, "");
      EXPECT_THAT(steps, ElementsAre(3, 6, 8));
    });
    EXPECT_TRUE(std::filesystem::exists(directory.path() / "checkpoints" / "step-00000003" /
                                        "shard-00001-of-00002.safetensors"));
  }
}

TEST(Checkpoints, LeaveTheStepsOfAnEarlierRunOutOfTheSpeed) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  train(solo, directory.path(), {.steps = 5, .global_batch = 12});

  ::testing::internal::CaptureStdout();
  const Outcome resumed = train(solo, directory.path(), {.global_batch = 12}, "auto");

  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(resumed.error, "");
  EXPECT_THAT(said, HasSubstr(" samples/s, 3 steps in "));
}

struct NoSamples : Dataset {
  int64_t size() const override { return 0; }
  Example example(int64_t index) const override { return points(1)->example(index); }
};

TEST(Trainings, WithNothingToTestOnEndBeforeTheFirstStep) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Session session = make_session(solo, directory.path(), {});
  SmallNet net;
  const auto optimizer = session.make_optimizer(net.parameters(), {.name = "sgd", .lr = 0.01});
  Trainer trainer(session, {.global_batch = 12});
  const torch::Tensor before = flat(net);
  const auto none = std::make_shared<NoSamples>();

  EXPECT_THAT([&] { trainer.fit(net, *optimizer, points(96), none, CrossEntropy()); },
              ::testing::ThrowsMessage<Error>(
                  "cannot evaluate: the test data set has no samples\n"
                  "  training: 96 samples\n"
                  "  try:      --no-validation, or null for the test data set in Trainer::fit()"));
  EXPECT_TRUE(flat(net).equal(before));
}

TEST(Trainings, ThatEndWithinTheWarmUpSaySo) {
  comm::Solo solo;
  for (const auto& [warmup, says] : {std::pair{8, true}, std::pair{7, false}}) {
    const os::TemporaryDirectory directory;
    ::testing::internal::CaptureStdout();
    train(solo, directory.path(), {.global_batch = 12, .warmup_steps = warmup});

    const std::string said = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(said.find("(training ends within the warm-up, after 8 steps)") != std::string::npos,
              says)
        << said;
  }
}

// Batch norm statistics of different samples on each worker.
struct NormedNet : torch::nn::Module {
  NormedNet() {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters()) {
      parameter.fill_(0.1);
    }
  }
  torch::Tensor forward(const torch::Tensor& input) {
    return last(second(first(hidden(input)).relu()));
  }

  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(8, 6));
  torch::nn::BatchNorm1d first = register_module("first", torch::nn::BatchNorm1d(6));
  torch::nn::BatchNorm1d second = register_module("second", torch::nn::BatchNorm1d(6));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(6, 4));
};

TEST(Checkpoints, HoldTheAveragesOfRankZeroUnderEveryStrategy) {
  for (const std::string strategy : {"ddp", "horovod", "mirrored", "deepspeed"}) {
    SCOPED_TRACE(strategy);
    const os::TemporaryDirectory directory;
    NamedTensors of_rank_zero;
    run_workers(2, [&](Communicator& comm) {
      Flags flags;
      flags.strategy = strategy;
      Session session = make_session(comm, directory.path(), flags);
      NormedNet net;
      // Without momentum, the half that rank 1 writes starts within the batch norm statistics.
      const auto optimizer = session.make_optimizer(net.parameters(), {.lr = 0.01, .momentum = 0});
      Trainer trainer(session, {.global_batch = 12});
      trainer.fit(net, *optimizer, points(96), nullptr, CrossEntropy());
      if (comm.rank() == 0) {
        of_rank_zero = collect_model(net);
      }
    });

    std::map<std::string, torch::Tensor> saved;
    for (const auto& [name, tensor] : load_weights(directory.path() / "model.pt")) {
      saved[name] = tensor;
    }
    ASSERT_EQ(saved.size(), of_rank_zero.size());
    for (const auto& [name, tensor] : of_rank_zero) {
      ASSERT_TRUE(saved[name].defined()) << name;
      EXPECT_TRUE(saved[name].equal(tensor)) << name;
    }
  }
}

TEST(Checkpoints, GoOnBetweenOneTwoAndFourWorkersWithinAnEpoch) {
  comm::Solo solo;
  const os::TemporaryDirectory whole;
  const TrainerOptions options = {.epochs = 2, .global_batch = 12};
  const Outcome expected = train(solo, whole.path(), options);
  for (const int writers : {1, 2, 4}) {
    for (const int readers : {1, 2, 4}) {
      SCOPED_TRACE(std::to_string(writers) + " to " + std::to_string(readers));
      const os::TemporaryDirectory directory;
      run_workers(writers, [&](Communicator& comm) {
        train(comm,
              directory.path(),
              {.epochs = 2, .steps = 11, .global_batch = 12, .checkpoint_every = 11});
      });
      run_workers(readers, [&](Communicator& comm) {
        const Outcome resumed = train(comm, directory.path(), options, "auto");
        EXPECT_EQ(resumed.error, "");
        EXPECT_TRUE(resumed.weights.allclose(expected.weights, 1e-4, 1e-6));
        EXPECT_TRUE(writers > 1 || readers > 1 || resumed.weights.equal(expected.weights));
      });
    }
  }
}

TEST(Checkpoints, AreSavedAtTheEndOfAnEpochToo) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  std::vector<int64_t> steps;
  train(solo,
        directory.path(),
        {.epochs = 2, .global_batch = 12, .checkpoint_every = 3},
        "none",
        std::make_unique<Noted>(steps));
  EXPECT_THAT(steps, ElementsAre(3, 6, 8, 9, 12, 15, 16));
}

std::vector<int64_t> steps_in(const std::filesystem::path& root) {
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : list_checkpoints(root)) {
    steps.push_back(entry.step);
  }
  return steps;
}

TEST(Checkpoints, OfAnotherTrainingAreSetAsideNotMixedIn) {
  const os::TemporaryDirectory directory;
  const std::filesystem::path root = directory.path() / "checkpoints";
  const TrainerOptions long_one = {.epochs = 3, .global_batch = 12};
  const TrainerOptions short_one = {.steps = 5, .global_batch = 12, .checkpoint_every = 3};
  run_workers(2, [&](Communicator& comm) { train(comm, directory.path(), long_one); });
  ASSERT_THAT(steps_in(root), ElementsAre(8, 16, 24));

  run_workers(2, [&](Communicator& comm) {
    EXPECT_EQ(train(comm, directory.path(), short_one).error, "");
  });
  EXPECT_THAT(steps_in(root), ElementsAre(3, 5));
  EXPECT_THAT(steps_in(root / "set-aside-1"), ElementsAre(8, 16, 24));
  EXPECT_EQ(CheckpointReader(root / "best").state().step, 5);

  // Back to an earlier checkpoint.
  run_workers(2, [&](Communicator& comm) {
    EXPECT_EQ(train(comm, directory.path(), long_one, (root / "step-00000003").string()).error, "");
  });
  EXPECT_THAT(steps_in(root), ElementsAre(8, 16, 24));
  EXPECT_THAT(steps_in(root / "set-aside-2"), ElementsAre(5));

  // Training is complete: there are no later checkpoints to move.
  run_workers(2, [&](Communicator& comm) {
    EXPECT_EQ(train(comm, directory.path(), long_one, "auto").error, "");
  });
  EXPECT_THAT(steps_in(root), ElementsAre(8, 16, 24));
  EXPECT_FALSE(std::filesystem::exists(root / "set-aside-3"));
}

TEST(Checkpoints, OfItsOwnAreWhatARestartGoesOnFrom) {
  comm::Solo solo;
  const os::TemporaryDirectory other;
  const os::TemporaryDirectory directory;
  train(solo, other.path(), {.steps = 2, .global_batch = 12});
  const TrainerOptions options = {.epochs = 2, .global_batch = 12};
  train(solo,
        directory.path(),
        {.epochs = 2, .steps = 12, .global_batch = 12},
        other.path().string());

  Flags flags;
  flags.resume = other.path().string();
  Session session = make_session(solo, directory.path(), flags);
  SessionAccess::parts(session).placement.worker.attempt = 1;
  SmallNet net;
  const auto optimizer = session.make_optimizer(net.parameters(), {.name = "adam", .lr = 0.01});
  ::testing::internal::CaptureStderr();
  Trainer(session, options).fit(net, *optimizer, points(96), points(40), CrossEntropy());

  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("resumed at step 12"));
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "checkpoints" / "set-aside-1"));
}

TEST(Checkpoints, OfWhichNoneIsSoundAreNotBegunOver) {
  const os::TemporaryDirectory directory;
  const std::filesystem::path root = directory.path() / "checkpoints";
  comm::Solo solo;
  train(solo, directory.path(), {.global_batch = 12});
  std::filesystem::remove(root / "step-00000008" / "shard-00000-of-00001.safetensors");

  run_workers(2, [&](Communicator& comm) {
    const Outcome outcome = train(comm, directory.path(), {.global_batch = 12}, "auto");
    EXPECT_EQ(outcome.code, comm.rank() == 0 ? 74 : 75);
    EXPECT_THAT(outcome.error,
                HasSubstr("cannot resume: all checkpoints in " + root.string() + " are damaged"));
  });
  EXPECT_THAT(steps_in(root), ElementsAre(8));
}

TEST(Checkpoints, ThatAreNotThereAreNamedSo) {
  const os::TemporaryDirectory directory;
  comm::Solo solo;
  const auto error_of = [&](const std::string& resume) {
    const Outcome outcome = train(solo, directory.path(), {.global_batch = 12}, resume);
    EXPECT_EQ(outcome.code, 64);
    return outcome.error;
  };
  EXPECT_EQ(error_of("atuo"),
            "cannot resume from atuo: it does not exist\n"
            "  expected: auto, none, a run directory, or a checkpoint directory\n"
            "  try:      --resume auto");
  EXPECT_THAT(error_of(directory.path().string()), HasSubstr("it contains no checkpoint"));
  os::write_file(directory.path() / "model.pt", "weights");
  EXPECT_THAT(error_of((directory.path() / "model.pt").string()),
              HasSubstr("model.pt: it contains no checkpoint"));
}

TEST(Checkpoints, OfStepsOfAnotherSizeEndWithTheLastEpoch) {
  comm::Solo solo;
  for (const int64_t smaller : {4, 6}) {
    const os::TemporaryDirectory directory;
    train(solo, directory.path(), {.steps = 2, .global_batch = 12});

    std::vector<int64_t> steps;
    const Outcome resumed = train(solo,
                                  directory.path(),
                                  {.epochs = 2, .global_batch = smaller, .schedule = "cosine"},
                                  "auto",
                                  std::make_unique<Noted>(steps));
    EXPECT_EQ(resumed.error, "");
    const int64_t each = 96 / smaller;
    EXPECT_THAT(steps, ElementsAre(2 + each - 24 / smaller, 2 + 2 * each - 24 / smaller));
  }
}

TEST(Checkpoints, WithinAnEpochTakeAnotherGlobalBatchOnlyWhereItFits) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  train(solo, directory.path(), {.steps = 2, .global_batch = 12});

  EXPECT_EQ(train(solo, directory.path(), {.global_batch = 16}, "auto").error,
            "cannot change the global batch within an epoch\n"
            "  requested: global batch 16\n"
            "  completed: 24 samples of epoch 1, in steps of 12  (checkpoint)\n"
            "  try:       --global-batch 12, or a divisor of 24");
  EXPECT_EQ(train(solo, directory.path(), {.global_batch = 8}, "auto").error, "");
}

TEST(Checkpoints, AreWrittenByRankZeroAloneWhereTheDirectoryIsNotShared) {
  const os::TemporaryDirectory directories[2];
  const TrainerOptions options = {.epochs = 2, .global_batch = 12};
  torch::Tensor expected;
  run_workers(2, [&](Communicator& comm) {
    const Outcome trained =
        train(comm, directories[static_cast<size_t>(comm.rank())].path(), options);
    EXPECT_EQ(trained.error, "");
    if (comm.rank() == 0) {
      expected = trained.weights;
    }
  });

  const auto kept = list_checkpoints(directories[0].path() / "checkpoints");
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_TRUE(std::filesystem::exists(kept[0].directory / "shard-00000-of-00001.safetensors"));
  EXPECT_THAT(list_checkpoints(directories[1].path() / "checkpoints"), ::testing::IsEmpty());
  os::remove_tree(kept[1].directory);
  run_workers(2, [&](Communicator& comm) {
    const Outcome resumed =
        train(comm, directories[static_cast<size_t>(comm.rank())].path(), options, "auto");
    EXPECT_TRUE(comm.rank() == 1 || resumed.weights.equal(expected)) << resumed.error;
  });
}

TEST(Checkpoints, ThatCannotBeWrittenEndTheTrainingOnAllWorkers) {
  const os::TemporaryDirectory directory;
  const std::filesystem::path root = directory.path() / "checkpoints";
  run_workers(2, [&](Communicator& comm) {
    const Outcome outcome = train(comm,
                                  directory.path(),
                                  {.global_batch = 12, .checkpoint_every = 4},
                                  "none",
                                  std::make_unique<AtStep>(3, [&] {
                                    if (comm.rank() == 0) {
                                      os::remove_tree(root);
                                      std::ofstream(root.string()) << "in the way";
                                    }
                                  }));
    if (comm.rank() == 0) {
      EXPECT_EQ(outcome.code, 74);
      EXPECT_THAT(outcome.error, HasSubstr("cannot create directory " + root.string()));
    } else {
      EXPECT_EQ(outcome.code, 75);
      EXPECT_THAT(outcome.error,
                  AllOf(HasSubstr("cannot continue: rank 0 could not save a checkpoint"),
                        HasSubstr("cannot create directory " + root.string())));
    }
  });
}

TEST(Checkpoints, ThatFailInTheBackgroundEndTrainingAndLeaveEarlierOnes) {
  const os::TemporaryDirectory directory;
  const std::filesystem::path root = directory.path() / "checkpoints";
  std::optional<testing::SmallFiles> small;
  std::mutex mutex;
  std::string errors;
  run_workers(2, [&](Communicator& comm) {
    const Outcome outcome = train(comm,
                                  directory.path(),
                                  {.epochs = 2, .global_batch = 12, .checkpoint_every = 4},
                                  "none",
                                  std::make_unique<AtStep>(7, [&] {
                                    if (comm.rank() == 0) {
                                      // The save of step 4 runs in the background.
                                      while (!std::filesystem::exists(root / "step-00000004")) {
                                        std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                      }
                                      small.emplace(5000);
                                    }
                                    comm.barrier();
                                  }));
    EXPECT_EQ(outcome.code, 74) << outcome.error;
    const std::lock_guard lock(mutex);
    errors += outcome.error;
  });
  // The second worker may find that the directory no longer exists.
  EXPECT_THAT(errors,
              AllOf(HasSubstr("cannot write " + root.string() + "/.step-00000008."),
                    HasSubstr("File too large")));
  small.reset();

  const auto kept = list_checkpoints(root);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].directory, root / "step-00000004");
  EXPECT_NO_THROW(CheckpointReader::verified(kept[0].directory));
}

TEST(Checkpoints, ThatCannotBeWrittenAreFoundOutBeforeTheFirstStep) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  std::ofstream(directory.path() / "checkpoints") << "in the way";
  bool stepped = false;

  const Outcome outcome =
      train(solo, directory.path(), {.global_batch = 12}, "none", std::make_unique<AtStep>(1, [&] {
              stepped = true;
            }));

  EXPECT_EQ(outcome.code, 74);
  EXPECT_FALSE(stepped);
}

}  // namespace
}  // namespace lockstep::train
