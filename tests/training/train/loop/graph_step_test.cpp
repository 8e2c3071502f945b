// SPDX-License-Identifier: Apache-2.0
//
// Tests CUDA graphs of training steps.
#include "training/train/loop/graph_step.h"

#include <chrono>
#include <functional>
#include <gmock/gmock.h>
#include <map>
#include <thread>
#include <torch/cuda.h>

#include "common/os/files.h"
#include "lockstep/datasets.h"
#include "lockstep/models.h"
#include "lockstep/optimizer.h"
#include "lockstep/trainer.h"
#include "support/session.h"
#include "support/step_events.h"
#include "training/comm/solo.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class GraphSteps : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!train::has_graphs() || !torch::cuda::is_available()) {
      GTEST_SKIP() << "needs a build with CUDA, and a GPU";
    }
  }
};

struct Trained {
  std::vector<torch::Tensor> weights;
  TrainResult result;
  std::string output;
  std::vector<contract::Event> steps;  // as reported
};

double sum_of(const std::vector<contract::Event>& events, const std::string& name) {
  double sum = 0;
  for (const contract::Event& event : events) {
    sum += contract::find_number(event, name).value();
  }
  return sum;
}

// By step, at the ends of epochs.
std::map<int64_t, double> norms_of(const Trained& trained) {
  std::map<int64_t, double> norms;
  for (const contract::Event& event : trained.steps) {
    const auto step = static_cast<int64_t>(contract::find_number(event, "step").value());
    if (step % 15 == 0) {
      norms[step] = contract::find_number(event, "gradient_norm").value_or(-1);
    }
  }
  return norms;
}

struct TrainingSetup {
  std::string graph = "on";
  std::string optimizer = "adamw";
  double clip = 0;
  bool looks = false;  // the loss function reads a value from the GPU
  bool on_gpu = true;  // the data set
};

Trained train_digits(const TrainingSetup& setup) {
  const os::TemporaryDirectory folder;
  comm::Solo solo;
  train::Flags flags;
  flags.cuda_graph = setup.graph;
  Session session = make_session(solo, folder.path(), flags, torch::Device(torch::kCUDA, 0));
  torch::manual_seed(4);
  const auto net = digit_net("mlp");
  const auto optimizer = session.make_optimizer(
      net->parameters(),
      {.name = setup.optimizer, .lr = 0.002, .matrices = hidden_matrices(*net)});  // for muon
  const DatasetPair digits = generated_digits(1000, 200, 1);
  Trainer trainer(session,
                  {.epochs = 3,
                   .global_batch = 64,
                   .clip_norm = setup.clip,
                   .schedule = "cosine",
                   .checkpoint_every = -1});
  const auto loss = [&setup](auto& model, const Batch& batch) -> Loss {
    Loss result = CrossEntropy()(model, batch);
    if (setup.looks && result.value.template item<float>() < 0) {
      throw Error(ExitCode::Bug, "a loss below zero");
    }
    return result;
  };
  ::testing::internal::CaptureStdout();
  const auto train = setup.on_gpu ? on_device(digits.train, session.device()) : digits.train;
  Trained trained;
  trained.result = trainer.fit(*net, *optimizer, train, digits.test, loss);
  trained.output = ::testing::internal::GetCapturedStdout();
  for (const torch::Tensor& parameter : net->parameters()) {
    trained.weights.push_back(parameter.detach().cpu());
  }
  trained.steps = step_events(folder.path(), 0);
  return trained;
}

double largest_difference(const Trained& a, const Trained& b) {
  double largest = 0;
  for (size_t i = 0; i < a.weights.size(); ++i) {
    largest = std::max(largest, (a.weights[i] - b.weights[i]).abs().max().item<double>());
  }
  return largest;
}

TEST_F(GraphSteps, TrainAsTheUsualWayDoes) {
  for (const std::string optimizer : {"adamw", "sgd"}) {
    for (const double clip : {0.0, 0.5}) {
      const Trained usual = train_digits({.graph = "off", .optimizer = optimizer, .clip = clip});
      const Trained played = train_digits({.optimizer = optimizer, .clip = clip});

      EXPECT_THAT(played.output, Not(HasSubstr("no CUDA graph")));
      EXPECT_EQ(played.result.steps, 45);
      EXPECT_LT(largest_difference(usual, played), 1e-4) << optimizer << clip;
      EXPECT_NEAR(played.result.train_loss, usual.result.train_loss, 1e-3);
      EXPECT_NEAR(*played.result.test_accuracy, *usual.result.test_accuracy, 0.02);
      EXPECT_LT(played.result.train_loss, 2.3);  // log(10), the loss of an untrained model
    }
  }
}

// Muon computes in bfloat16, which amplifies differences of the last bit of a gradient.
TEST_F(GraphSteps, TrainWithMuonAsTheUsualWayDoes) {
  for (const double clip : {0.0, 0.5}) {
    const Trained usual = train_digits({.graph = "off", .optimizer = "muon", .clip = clip});
    const Trained played = train_digits({.optimizer = "muon", .clip = clip});

    EXPECT_THAT(played.output, Not(HasSubstr("no CUDA graph")));
    EXPECT_LT(largest_difference(usual, played), 5e-3) << clip;
    EXPECT_NEAR(played.result.train_loss, usual.result.train_loss, 5e-3);
    EXPECT_LT(played.result.train_loss, 2.3);
  }
}

TEST_F(GraphSteps, TakeBatchesFromMainMemory) {
  const Trained usual = train_digits({.graph = "off"});
  const Trained played = train_digits({.on_gpu = false});

  EXPECT_LT(largest_difference(usual, played), 1e-4);
}

// Evaluation runs other kernels between two replays; the memory of the recorded ones must survive.
TEST_F(GraphSteps, OfResNetsContinueAfterValidation) {
  for (const std::string name : {"resnet18", "resnet50"}) {
    SCOPED_TRACE(name);
    const os::TemporaryDirectory folder;
    comm::Solo solo;
    train::Flags flags;
    flags.cuda_graph = "on";
    Session session = make_session(solo, folder.path(), flags, torch::Device(torch::kCUDA, 0));
    torch::manual_seed(4);
    const auto net = resnet(name, {.classes = 4, .small_images = true});
    const auto optimizer =
        session.make_optimizer(net->parameters(), {.name = "sgd", .lr = 0.01, .momentum = 0.9});
    const torch::Tensor targets = torch::arange(256) % 4;
    const torch::Tensor images =
        torch::randint(0, 64, {256, 3, 32, 32}, torch::kUInt8) + 48 * targets.view({-1, 1, 1, 1});
    const DatasetPtr samples = tensors(images.to(torch::kUInt8), targets);
    Trainer trainer(session,
                    {.epochs = 6, .global_batch = 32, .precision = "bf16", .checkpoint_every = -1});

    ::testing::internal::CaptureStdout();
    const TrainResult result = trainer.fit(*net, *optimizer, samples, samples, CrossEntropy());
    const std::string output = ::testing::internal::GetCapturedStdout();

    EXPECT_EQ(result.steps, 48) << output;
    EXPECT_LT(result.train_loss, 1) << output;  // of four classes: 1.39 without training
  }
}

TEST_F(GraphSteps, ReportTheSameNormOfTheGradientAsEagerSteps) {
  for (const double clip : {0.0, 0.5}) {
    const auto usual = norms_of(train_digits({.graph = "off", .clip = clip}));
    const auto played = norms_of(train_digits({.clip = clip}));

    ASSERT_EQ(usual.size(), 3U);
    ASSERT_EQ(played.size(), 3U);
    for (const auto& [step, norm] : usual) {
      EXPECT_GT(norm, 0.01) << step;
      EXPECT_NEAR(played.at(step), norm, 0.01 * norm) << step << " clip " << clip;
    }
  }
}

// A digit net with `work` as additional part of its loss function, for the GPU or for the host.
std::vector<contract::Event> train_slowly(const DatasetPtr& data,
                                          const std::string& graph,
                                          const std::function<void()>& work) {
  const os::TemporaryDirectory folder;
  comm::Solo solo;
  train::Flags flags;
  flags.cuda_graph = graph;
  Session session = make_session(solo, folder.path(), flags, torch::Device(torch::kCUDA, 0));
  const auto net = digit_net("mlp");
  const auto optimizer = session.make_optimizer(net->parameters(), {.name = "sgd", .lr = 0.002});
  Trainer trainer(session,
                  {.epochs = 2, .global_batch = 64, .checkpoint_every = -1, .loader_threads = 0});
  ::testing::internal::CaptureStdout();
  trainer.fit(*net, *optimizer, data, nullptr, [&](auto& model, const Batch& batch) -> Loss {
    work();
    return CrossEntropy()(model, batch);
  });
  ::testing::internal::GetCapturedStdout();
  return step_events(folder.path(), 0);
}

TEST_F(GraphSteps, TellHowLongTheGpuComputed) {
  const torch::Tensor large = torch::randn({4096, 4096}, torch::device(torch::kCUDA));
  const auto work = [&] {
    for (int i = 0; i < 8; ++i) {
      torch::matmul(large, large);
    }
  };
  work();
  torch::cuda::synchronize();
  const auto begun = std::chrono::steady_clock::now();
  work();
  torch::cuda::synchronize();
  const double once =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  for (const std::string graph : {"off", "on"}) {
    const auto steps = train_slowly(generated_digits(640, 64, 1).train, graph, work);

    // Twenty steps, of which the host measures almost nothing.
    EXPECT_GT(sum_of(steps, "compute_seconds"), 16 * once) << graph;
    EXPECT_LT(sum_of(steps, "compute_seconds"), 40 * once + 0.5) << graph;
    EXPECT_LT(sum_of(steps, "data_seconds"), 10 * once) << graph;
    EXPECT_EQ(sum_of(steps, "exchange_seconds"), 0) << graph;
  }
}

TEST_F(GraphSteps, TellTheMemoryThatTheyHold) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  for (const std::string graph : {"off", "on"}) {
    const auto steps = train_slowly(generated_digits(640, 64, 1).train, graph, [] {
      torch::zeros({kBytes}, torch::device(torch::kCUDA).dtype(torch::kUInt8));
    });

    ASSERT_FALSE(steps.empty());
    const double held = contract::find_number(steps.back(), "device_memory_bytes").value();
    EXPECT_GT(held, kBytes) << graph;
    EXPECT_LT(held, 16 * kBytes) << graph;
  }
}

TEST_F(GraphSteps, TellHowLongTheGpuWaitedForBatches) {
  const auto slowly = [](Batch batch) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return batch;
  };
  for (const std::string graph : {"off", "on"}) {
    const auto steps =
        train_slowly(map_batches(generated_digits(640, 64, 1).train, slowly), graph, [] {});

    // Twenty steps. The time before the first step and during the recording of the graph does not
    // count as waiting for batches.
    EXPECT_GT(sum_of(steps, "data_seconds"), 0.28) << graph;
    EXPECT_LT(sum_of(steps, "compute_seconds"), 0.5 * sum_of(steps, "data_seconds") + 0.5) << graph;
  }
}

TEST_F(GraphSteps, GiveWayWhereTheLossFunctionLooksAtANumber) {
  const Trained usual = train_digits({.graph = "off"});
  const Trained tried = train_digits({.looks = true});

  EXPECT_THAT(tried.output, HasSubstr("no CUDA graph: "));
  EXPECT_LT(largest_difference(usual, tried), 1e-4);
}

}  // namespace
}  // namespace lockstep
