// SPDX-License-Identifier: Apache-2.0
//
// Tests training on samples that differ from epoch to epoch, and evaluation with unreadable
// samples.
#include <gmock/gmock.h>
#include <map>
#include <numeric>

#include "common/cluster/cores.h"
#include "common/os/files.h"
#include "lockstep/datasets.h"
#include "lockstep/error.h"
#include "lockstep/loader.h"
#include "support/image_set.h"
#include "support/run_workers.h"
#include "training/comm/solo.h"
#include "training/train/small_training.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// points() with noise that depends only on epoch and sample.
class NoisyPoints : public Dataset {
 public:
  explicit NoisyPoints(int64_t epoch = 0) : epoch_(epoch) {}

  int64_t size() const override { return points_->size(); }

  Example example(int64_t index) const override {
    Example one = points_->example(index);
    const auto seed = static_cast<uint64_t>(1000 * epoch_ + index);
    torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
    return {one.input + torch::randn({8}, generator), one.target};
  }

  DatasetPtr in_epoch(int64_t epoch) const override { return std::make_shared<NoisyPoints>(epoch); }

 private:
  DatasetPtr points_ = points(100);
  int64_t epoch_;
};

// points(40) of which [begin, end) cannot be read.
class Gaps : public Dataset {
 public:
  Gaps(int64_t begin, int64_t end) : begin_(begin), end_(end) {}

  int64_t size() const override { return 40; }
  Example example(int64_t index) const override { return points_->example(index); }

  Batch batch(std::span<const int64_t> indices) const override {
    std::vector<int64_t> kept;
    for (const int64_t index : indices) {
      if (index < begin_ || index >= end_) {
        kept.push_back(index);
      }
    }
    return kept.empty() ? Batch{} : points_->batch(kept);
  }

 private:
  DatasetPtr points_ = points(40);
  int64_t begin_;
  int64_t end_;
};

torch::Tensor train_on_noise(Communicator& comm,
                             const std::filesystem::path& directory,
                             TrainerOptions options,
                             const std::string& resume = "none") {
  train::Flags flags;
  flags.resume = resume;
  Session session = make_session(comm, directory, flags);
  SmallNet net;
  torch::optim::SGD sgd(net.parameters(), 0.1);
  options.epochs = 3;
  options.global_batch = 12;
  Trainer trainer(session, options);
  trainer.fit(net, sgd, std::make_shared<NoisyPoints>(), nullptr, CrossEntropy());
  return flat(net);
}

TEST(SamplesOfAnEpoch, AreTheSameWhateverTheThreadsAndAfterAResumeWithinIt) {
  comm::Solo solo;
  const os::TemporaryDirectory whole;
  const torch::Tensor uninterrupted =
      train_on_noise(solo, whole.path(), {.checkpoint_every = -1, .loader_threads = 0});
  for (const int threads : {-1, 0, 2, 5}) {
    SCOPED_TRACE(threads);
    const os::TemporaryDirectory halves;
    // 8 steps in an epoch: 11 steps end in the middle of the second one.
    train_on_noise(
        solo, halves.path(), {.steps = 11, .checkpoint_every = 11, .loader_threads = threads});
    const torch::Tensor resumed =
        train_on_noise(solo, halves.path(), {.loader_threads = threads}, "auto");

    EXPECT_TRUE(resumed.equal(uninterrupted));
  }
}

TEST(SamplesOfAnEpoch, AreWhatALoopByHandTrainsOn) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  SmallNet net;
  torch::optim::SGD sgd(net.parameters(), 0.1);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    DistributedSampler sampler({.dataset_size = 100,
                                .global_batch = 12,
                                .rank = 0,
                                .world_size = 1,
                                .tail = Tail::Drop,
                                .seed = 1});
    sampler.set_epoch(epoch);
    for (int64_t step = 0; step < sampler.steps(); ++step) {
      sgd.zero_grad();
      CrossEntropy()(net, NoisyPoints(epoch).batch(sampler.indices(step))).value.backward();
      sgd.step();
    }
  }

  EXPECT_TRUE(torch::allclose(
      train_on_noise(solo, directory.path(), {.checkpoint_every = -1}), flat(net), 1e-6, 1e-7));
}

// Records the step at which the samples of each epoch were requested.
class Noting : public Dataset {
 public:
  explicit Noting(std::map<int64_t, int64_t>& asked, const int64_t& steps)
      : asked_(asked), steps_(steps) {}

  int64_t size() const override { return points_->size(); }
  Example example(int64_t index) const override { return points_->example(index); }

  DatasetPtr in_epoch(int64_t epoch) const override {
    asked_[epoch] = steps_;
    return points_;
  }

 private:
  DatasetPtr points_ = points(100);
  std::map<int64_t, int64_t>& asked_;
  const int64_t& steps_;
};

class StepCounter : public Callback {
 public:
  explicit StepCounter(int64_t& steps) : steps_(steps) {}
  void on_step(const TrainState& state) override { steps_ = state.step; }

 private:
  int64_t& steps_;
};

TEST(SamplesOfAnEpoch, AreBegunWhileTheLastStepsOfTheOneBeforeAreMade) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Session session = make_session(solo, directory.path(), {});
  SmallNet net;
  torch::optim::SGD sgd(net.parameters(), 0.1);
  std::map<int64_t, int64_t> asked;
  int64_t steps = 0;
  Trainer trainer(session,
                  {.epochs = 3, .global_batch = 5, .checkpoint_every = -1, .loader_threads = 2});
  trainer.add(std::make_unique<StepCounter>(steps));
  trainer.fit(net, sgd, std::make_shared<Noting>(asked, steps), nullptr, CrossEntropy());

  // An epoch has 20 steps; the loader is two batches plus the threads ahead. There is no fourth
  // epoch.
  EXPECT_THAT(asked, ElementsAre(Pair(0, 0), Pair(1, 16), Pair(2, 36)));
}

// A linear classifier of unnormalized images.
struct PixelNet : torch::nn::Module {
  PixelNet() {
    torch::NoGradGuard no_grad;
    linear->weight.fill_(0.01);
    linear->bias.zero_();
  }

  torch::Tensor forward(const torch::Tensor& bytes) {
    return linear(bytes.to(torch::kFloat32).div(255).flatten(1));
  }

  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(3 * 16 * 16, 2));
};

TEST(AugmentedImages, GiveTheSameLossAfterAStopAndAResumeWithinAnEpoch) {
  const TinyFolders folders(40, 6);
  folders.write(TinyFolders::train_name(6), "no image");
  const DatasetPair images =
      tiny_imagenet(folders.path(), {.size = 16, .seed = 4, .corrupt = "skip"});
  comm::Solo solo;
  const auto train = [&](const std::filesystem::path& directory, TrainerOptions options) {
    train::Flags flags;
    flags.resume = options.steps == 0 ? "auto" : "none";
    Session session = make_session(solo, directory, flags);
    PixelNet net;
    torch::optim::SGD sgd(net.parameters(), 0.01);
    options.epochs = 3;
    options.global_batch = 8;
    options.checkpoint_every = 3;
    Trainer trainer(session, options);
    const TrainResult result = trainer.fit(net, sgd, images.train, images.test, CrossEntropy());
    return std::pair(result.test_loss.value(), flat(net));
  };
  ::testing::internal::CaptureStderr();
  const os::TemporaryDirectory whole;
  const auto uninterrupted = train(whole.path(), {.steps = 15, .loader_threads = 1});
  const os::TemporaryDirectory halves;
  train(halves.path(), {.steps = 8, .loader_threads = 2});  // 5 steps in an epoch
  const auto resumed = train(halves.path(), {.steps = 0, .loader_threads = 5});
  ::testing::internal::GetCapturedStderr();

  EXPECT_EQ(resumed.first, uninterrupted.first);
  EXPECT_TRUE(resumed.second.equal(uninterrupted.second));
}

TEST(LoaderThreads, AreTheCoresOfAWorkerButOne) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Session session = make_session(solo, directory.path());
  const int cores = cluster::granted_cores();

  EXPECT_EQ(Trainer(session, {.loader_threads = -1}).options().loader_threads,
            std::max(1, cores - 1));
  SessionAccess::parts(session).replicas = 1000;
  EXPECT_EQ(Trainer(session, {.loader_threads = -1}).options().loader_threads, 1);
  EXPECT_EQ(Trainer(session, {.loader_threads = 3}).options().loader_threads, 3);
}

TEST(EvaluationWithGaps, CountsTheSamplesThatAreThere) {
  for (const int size : {1, 2, 3}) {
    run_workers(size, [&](Communicator& comm) {
      const os::TemporaryDirectory directory;
      Session session = make_session(comm, directory.path());
      SmallNet net;
      Trainer trainer(session, {.global_batch = 12, .evaluation_batch = 4, .loader_threads = 2});

      // Several batches of a worker are empty, the first sample is missing.
      const Evaluation result =
          trainer.evaluate(net, std::make_shared<Gaps>(0, 27), CrossEntropy());

      torch::NoGradGuard no_grad;
      std::vector<int64_t> rest(13);
      std::iota(rest.begin(), rest.end(), 27);
      const Loss whole = CrossEntropy()(net, points(40)->batch(rest));
      EXPECT_EQ(result.samples, 13);
      EXPECT_NEAR(result.loss, whole.value.item<double>(), 1e-5);
    });
  }
}

TEST(EvaluationWithGaps, KeepsWorkersTogetherThatShareTheModel) {
  run_workers(3, [](Communicator& comm) {
    const os::TemporaryDirectory directory;
    train::Flags flags;
    flags.strategy = "deepspeed";
    flags.zero_stage = 3;
    flags.no_checkpoint = true;
    Session session = make_session(comm, directory.path(), flags);
    SmallNet net;
    const auto sgd = session.make_optimizer(net.parameters(), {.name = "sgd", .lr = 0.01});
    Trainer trainer(session, {.steps = 2, .global_batch = 12, .evaluation_batch = 4});
    // Two of three workers have no readable sample, and there is no first sample to use instead.
    const TrainResult result =
        trainer.fit(net, *sgd, points(100), std::make_shared<Gaps>(0, 27), CrossEntropy());

    EXPECT_GT(result.test_loss.value_or(0), 0);
  });
}

TEST(EvaluationWithGaps, RefusesADataSetWithNothingToRead) {
  run_workers(2, [](Communicator& comm) {
    const os::TemporaryDirectory directory;
    Session session = make_session(comm, directory.path());
    SmallNet net;
    Trainer trainer(session, {.global_batch = 12, .evaluation_batch = 4});
    EXPECT_THAT([&] { trainer.evaluate(net, std::make_shared<Gaps>(0, 40), CrossEntropy()); },
                ::testing::ThrowsMessage<Error>("cannot evaluate: no sample can be read\n"
                                                "  samples: 40"));
  });
}

}  // namespace
}  // namespace lockstep
