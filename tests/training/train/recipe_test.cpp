// SPDX-License-Identifier: Apache-2.0
// Tests the parts of an image recipe: label smoothing, top-5, warm-up in epochs, and weight decay
// without norms and biases.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <numeric>

#include "common/os/files.h"
#include "lockstep/error.h"
#include "lockstep/trainer.h"
#include "support/run_workers.h"
#include "support/session.h"
#include "training/comm/solo.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kClasses = 9;

torch::Tensor numbers(at::IntArrayRef sizes, uint64_t seed) {
  return torch::randn(sizes, torch::make_generator<torch::CPUGeneratorImpl>(seed));
}

// Its initial weights do not depend on the generator, which ranks share as threads.
struct Net : torch::nn::Module {
  Net() {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters()) {
      parameter.copy_(numbers(parameter.sizes(), 9) * 0.3);
    }
  }

  torch::Tensor forward(const torch::Tensor& input) { return second(norm(first(input)).relu()); }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 13));
  torch::nn::LayerNorm norm =
      register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({13})));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(13, kClasses));
};

DatasetPtr points(int64_t count) {
  const torch::Tensor input = numbers({count, 8}, 3);
  return tensors(input, input.matmul(numbers({8, kClasses}, 4)).argmax(1));
}

// Omits samples like unreadable files: all samples of one batch, and one of another.
class WithHoles : public Dataset {
 public:
  explicit WithHoles(DatasetPtr whole) : whole_(std::move(whole)) {}

  int64_t size() const override { return whole_->size(); }
  Example example(int64_t index) const override { return whole_->example(index); }
  Batch batch(std::span<const int64_t> indices) const override {
    std::vector<int64_t> kept(indices.begin(), indices.end());
    std::erase_if(kept, [](int64_t index) { return index < 4 || index == 17; });
    return whole_->batch(kept);
  }

 private:
  DatasetPtr whole_;
};

// The definition, in float64: (1 - s) x cross entropy + s x the mean of -log p over all classes.
double smoothed(const torch::Tensor& scores, const torch::Tensor& target, double smoothing) {
  const torch::Tensor log_p = scores.to(torch::kFloat64).log_softmax(1);
  const torch::Tensor own = -log_p.gather(1, target.unsqueeze(1)).squeeze(1);
  return ((1 - smoothing) * own - smoothing * log_p.mean(1)).mean().item<double>();
}

TEST(CrossEntropy, SmoothsLabelsWhileTheModelTrainsOnly) {
  Net net;
  const auto data = points(40);
  std::vector<int64_t> all(40);
  std::iota(all.begin(), all.end(), 0);
  const Batch batch = data->batch(all);
  const torch::Tensor scores = net.forward(batch.input);
  for (const double smoothing : {0.0, 0.1, 0.5}) {
    const CrossEntropy loss{.label_smoothing = smoothing};
    net.train();
    EXPECT_NEAR(
        loss(net, batch).value.item<double>(), smoothed(scores, batch.target, smoothing), 1e-6);
    net.eval();
    EXPECT_EQ(loss(net, batch).value.item<float>(), CrossEntropy()(net, batch).value.item<float>());
    EXPECT_NEAR(loss(net, batch).value.item<double>(), smoothed(scores, batch.target, 0), 1e-6);
  }
}

// A network with a loss_and_scores(), which CrossEntropy must call.
struct Doubling : Net {
  std::pair<torch::Tensor, torch::Tensor> loss_and_scores(const torch::Tensor& input,
                                                          const torch::Tensor& target,
                                                          double smoothing) {
    torch::Tensor scores = forward(input);
    const auto options =
        torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(smoothing);
    return {2 * torch::nn::functional::cross_entropy(scores, target, options), scores};
  }
};

TEST(CrossEntropy, AsksAModelThatHasALossOfItsOwn) {
  Net net;
  Doubling doubling;
  const std::vector<int64_t> some{1, 5, 7};
  const Batch batch = points(40)->batch(some);
  const CrossEntropy loss{.label_smoothing = 0.1};
  for (const bool trains : {true, false}) {
    net.train(trains);
    doubling.train(trains);
    const Loss found = loss(doubling, batch);
    EXPECT_FLOAT_EQ(found.value.item<float>(), 2 * loss(net, batch).value.item<float>()) << trains;
    EXPECT_TRUE(found.scores.equal(net.forward(batch.input)));
  }
}

// The expected result over the remaining samples of WithHoles.
Evaluation counted(Net& net, const Dataset& data) {
  const torch::NoGradGuard no_grad;
  Evaluation result{.accuracy = 0, .top5 = 0};
  for (int64_t index = 0; index < data.size(); ++index) {
    const Batch one = data.batch(std::span(&index, 1));
    if (one.size() == 0) {
      continue;
    }
    const torch::Tensor scores = net.forward(one.input)[0];
    const auto target = one.target.item<int64_t>();
    const auto higher = scores.gt(scores[target]).sum().item<int64_t>();
    result.loss += smoothed(scores.unsqueeze(0), one.target, 0);
    *result.accuracy += higher < 1 ? 1 : 0;
    *result.top5 += higher < 5 ? 1 : 0;
    ++result.samples;
  }
  const auto all = static_cast<double>(result.samples);
  result.loss /= all;
  *result.accuracy /= all;
  *result.top5 /= all;
  return result;
}

TEST(Evaluation, CountsWhatIsThereOnAnyNumberOfWorkers) {
  Net reference;
  const auto data = std::make_shared<WithHoles>(points(31));
  const Evaluation wanted = counted(reference, *data);
  ASSERT_EQ(wanted.samples, 26);
  ASSERT_LT(*wanted.accuracy, *wanted.top5);
  for (const int workers : {1, 2, 3, 5}) {
    for (const std::string strategy : {"ddp", "deepspeed"}) {
      SCOPED_TRACE(fmt::format("{} x {}", strategy, workers));
      const os::TemporaryDirectory directory;
      run_workers(workers, [&](Communicator& comm) {
        train::Flags flags;
        flags.strategy = strategy;
        Session session = make_session(comm, directory.path(), flags);
        Net net;
        torch::optim::SGD never(net.parameters(), 0.0);
        TrainerOptions options{.epochs = 1, .steps = 1, .global_batch = 10, .evaluation_batch = 4};
        options.strategy.zero.stage = 3;
        options.strategy.zero.persistence_threshold = 5;
        Trainer trainer(session, options);

        const TrainResult trained = trainer.fit(net, never, points(20), data, CrossEntropy());
        const Evaluation found = trainer.evaluate(net, data, CrossEntropy());

        EXPECT_EQ(found.samples, wanted.samples);
        EXPECT_EQ(found.accuracy, wanted.accuracy);
        EXPECT_EQ(found.top5, wanted.top5);
        EXPECT_NEAR(found.loss, wanted.loss, 1e-6);
        EXPECT_EQ(trained.test_accuracy, wanted.accuracy);
        EXPECT_EQ(trained.test_top5, wanted.top5);
        EXPECT_NEAR(trained.test_loss.value(), wanted.loss, 1e-6);
      });
    }
  }
}

TEST(Evaluation, HasNoTopFiveOfFewClasses) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Session session = make_session(solo, directory.path());
  torch::nn::Sequential net(torch::nn::Linear(8, 5));
  const torch::Tensor input = numbers({10, 8}, 3);

  const Evaluation found =
      Trainer(session, {})
          .evaluate(*net, tensors(input, input.narrow(1, 0, 5).argmax(1)), CrossEntropy());

  EXPECT_TRUE(found.accuracy.has_value());
  EXPECT_FALSE(found.top5.has_value());
}

TEST(Warmup, MayBeSaidInEpochs) {
  comm::Solo solo;
  for (const bool has_flag : {false, true}) {
    const os::TemporaryDirectory directory;
    train::Flags flags;
    if (has_flag) {
      flags.warmup = 2;
    }
    Session session = make_session(solo, directory.path(), flags);
    Net net;
    torch::optim::SGD sgd(net.parameters(), 0.1);
    Trainer trainer(session, {.epochs = 3, .global_batch = 10, .warmup_epochs = 1.5});
    auto log = std::make_unique<LearningRateLog>();
    const LearningRateLog& seen = *log;
    trainer.add(std::move(log));

    trainer.fit(net, sgd, points(40), nullptr, CrossEntropy());

    const int64_t rising = has_flag ? 2 : 6;
    for (int64_t step = 0; step < 12; ++step) {
      const double share = static_cast<double>(std::min(step + 1, rising)) / double(rising);
      EXPECT_NEAR(seen.rates()[static_cast<size_t>(step)], 0.1 * share, 1e-12) << step;
    }
  }
}

TEST(Trainer, ShowsWhatTheFlagsMadeOfItsOptions) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  train::Flags flags;
  flags.global_batch = 96;
  Session session = make_session(solo, directory.path(), flags);

  EXPECT_EQ(Trainer(session, {.global_batch = 12}).options().global_batch, 96);
}

TEST(Session, ReadsNumbersOfTheProgramsOwnAndQuotesWhatIsNone) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  train::Flags flags;
  flags.program = {{"--a", "0.125"}, {"--b", "64"}, {"--c", "much"}, {"--d", "1e"}, {"--e", ""}};
  const Session session = make_session(solo, directory.path(), flags);

  EXPECT_EQ(session.number("--a"), 0.125);
  EXPECT_EQ(session.number("--b"), 64);
  EXPECT_THAT([&] { session.number("--c"); },
              ThrowsMessage<Error>("--c 'much' is not a number\n"
                                   "  requested: --c much  (command line)\n"
                                   "  try:       --c with a number"));
  for (const char* name : {"--d", "--e"}) {
    EXPECT_THROW(session.number(name), Error) << name;
  }
}

TEST(Session, RefusesNumbersOutOfRangeAndPartsOfWholeOnes) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  train::Flags flags;
  flags.program = {{"--share", "5"}, {"--below", "-1"}, {"--size", "16.5"}, {"--whole", "16"}};
  const Session session = make_session(solo, directory.path(), flags);

  EXPECT_EQ(session.number("--share", 0, 5), 5);
  EXPECT_EQ(session.whole_number("--whole", 16, 16), 16);
  EXPECT_THAT([&] { session.number("--share", 0, 1); },
              ThrowsMessage<Error>("--share '5' is not a number from 0 to 1\n"
                                   "  requested: --share 5  (command line)\n"
                                   "  try:       --share with a number from 0 to 1"));
  EXPECT_THAT([&] { session.number("--below", 0); },
              ThrowsMessage<Error>(HasSubstr("is not a number from 0\n")));
  EXPECT_THAT(
      [&] { session.whole_number("--size", 8, 4096); },
      ThrowsMessage<Error>(HasSubstr("--size '16.5' is not a whole number from 8 to 4096")));
}

struct Way {
  std::string strategy;
  int stage = 0;
  int workers = 1;
};

// Trains `steps` steps, eight per epoch, with a noticeable weight decay.
torch::Tensor train_split(const Way& way,
                          const std::string& optimizer,
                          const std::filesystem::path& directory,
                          int64_t steps,
                          bool resumes) {
  torch::Tensor result;
  run_workers(way.workers, [&](Communicator& comm) {
    train::Flags flags;
    flags.strategy = way.strategy;
    flags.resume = resumes ? "auto" : "none";
    Session session = make_session(comm, directory, flags);
    Net net;
    const auto made =
        session.make_optimizer(net, {.name = optimizer, .lr = 0.01, .weight_decay = 0.3});
    TrainerOptions options{.epochs = 2, .steps = steps, .global_batch = 12};
    options.strategy.zero.stage = way.stage;
    options.strategy.zero.persistence_threshold = 5;
    options.strategy.zero.bucket_elements = 50;
    Trainer(session, options).fit(net, *made, points(96), nullptr, CrossEntropy());
    if (comm.rank() == 0) {
      std::vector<torch::Tensor> all;
      for (const torch::Tensor& parameter : net.parameters()) {
        all.push_back(parameter.detach().to(torch::kFloat64).flatten());
      }
      result = torch::cat(all);
    }
  });
  return result;
}

TEST(WeightDecay, IsSplitTheSameWayUnderEveryStrategyAndStage) {
  const std::vector<Way> ways = {{"ddp", 0, 2},
                                 {"horovod", 0, 2},
                                 {"mirrored", 0, 2},
                                 {"deepspeed", 0, 2},
                                 {"deepspeed", 1, 3},
                                 {"deepspeed", 2, 3},
                                 {"deepspeed", 3, 3}};
  for (const std::string optimizer : {"sgd", "adam", "adamw", "lamb", "adagrad"}) {
    const os::TemporaryDirectory directory;
    const torch::Tensor wanted = train_split({"single"}, optimizer, directory.path(), 16, false);
    for (const Way& way : ways) {
      SCOPED_TRACE(fmt::format("{} {} {} x{}", optimizer, way.strategy, way.stage, way.workers));
      const os::TemporaryDirectory whole;
      const torch::Tensor found = train_split(way, optimizer, whole.path(), 16, false);
      EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-5);
    }
  }
}

// Small singular values amplify the rounding of sums in another order, by up to 3.4445^5.
TEST(Muon, TrainsAsOneProcessDoesUnderEveryStrategyAndStage) {
  const os::TemporaryDirectory directory;
  const torch::Tensor wanted = train_split({"single"}, "muon", directory.path(), 16, false);
  const std::vector<Way> ways = {{"ddp", 0, 2},
                                 {"horovod", 0, 2},
                                 {"mirrored", 0, 2},
                                 {"deepspeed", 0, 2},
                                 {"deepspeed", 1, 3},
                                 {"deepspeed", 2, 3},
                                 {"deepspeed", 3, 3}};
  for (const Way& way : ways) {
    SCOPED_TRACE(fmt::format("{} {} x{}", way.strategy, way.stage, way.workers));
    const os::TemporaryDirectory whole;
    const torch::Tensor found = train_split(way, "muon", whole.path(), 16, false);
    EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-4);
  }
}

TEST(WeightDecay, StaysSplitWhenATrainingGoesOnUnderAnotherStrategy) {
  const std::vector<Way> ways = {
      {"single", 0, 1}, {"ddp", 0, 2}, {"deepspeed", 1, 3}, {"deepspeed", 3, 2}};
  const os::TemporaryDirectory whole;
  const torch::Tensor wanted = train_split({"single"}, "sgd", whole.path(), 16, false);
  for (const Way& from : ways) {
    const os::TemporaryDirectory saved;
    train_split(from, "sgd", saved.path(), 5, false);
    for (const Way& to : ways) {
      SCOPED_TRACE(fmt::format("{}{} to {}{}", from.strategy, from.stage, to.strategy, to.stage));
      const os::TemporaryDirectory directory;
      std::filesystem::copy(
          saved.path(), directory.path(), std::filesystem::copy_options::recursive);
      const torch::Tensor found = train_split(to, "sgd", directory.path(), 16, true);
      EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-5);
    }
  }
}

}  // namespace
}  // namespace lockstep
