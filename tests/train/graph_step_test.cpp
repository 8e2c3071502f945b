// SPDX-License-Identifier: Apache-2.0
//
// Steps that are recorded and played again, on a GPU.
#include "train/graph_step.h"

#include <gmock/gmock.h>

#include "comm/solo.h"
#include "lockstep/datasets.h"
#include "lockstep/models.h"
#include "lockstep/trainer.h"
#include "os/files.h"
#include "support/session.h"

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
};

struct Wish {
  std::string graph = "on";
  std::string optimizer = "adamw";
  double clip = 0;
  bool looks = false;  // the loss function looks at a number of the GPU
  bool on_gpu = true;  // the data set
};

Trained train_digits(const Wish& wish) {
  const os::TemporaryDirectory folder;
  comm::Solo solo;
  train::Flags flags;
  flags.cuda_graph = wish.graph;
  Session session = make_session(solo, folder.path(), flags, torch::Device(torch::kCUDA, 0));
  torch::manual_seed(4);
  const auto net = digit_net("mlp");
  const auto optimizer =
      session.make_optimizer(net->parameters(), {.name = wish.optimizer, .lr = 0.002});
  const DatasetPair digits = generated_digits(1000, 200, 1);
  Trainer trainer(session,
                  {.epochs = 3,
                   .global_batch = 64,
                   .clip_norm = wish.clip,
                   .schedule = "cosine",
                   .checkpoint_every = -1});
  const auto loss = [&wish](auto& model, const Batch& batch) -> Loss {
    Loss result = CrossEntropy()(model, batch);
    if (wish.looks && result.value.template item<float>() < 0) {
      throw Error(ExitCode::Bug, "a loss below zero");
    }
    return result;
  };
  ::testing::internal::CaptureStdout();
  const auto train = wish.on_gpu ? on_device(digits.train, session.device()) : digits.train;
  Trained trained;
  trained.result = trainer.fit(*net, *optimizer, train, digits.test, loss);
  trained.output = ::testing::internal::GetCapturedStdout();
  for (const torch::Tensor& parameter : net->parameters()) {
    trained.weights.push_back(parameter.detach().cpu());
  }
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
      EXPECT_LT(played.result.train_loss, 2.3);  // ten classes, nothing learnt
    }
  }
}

TEST_F(GraphSteps, TakeBatchesFromMainMemory) {
  const Trained usual = train_digits({.graph = "off"});
  const Trained played = train_digits({.on_gpu = false});

  EXPECT_LT(largest_difference(usual, played), 1e-4);
}

TEST_F(GraphSteps, GiveWayWhereTheLossFunctionLooksAtANumber) {
  const Trained usual = train_digits({.graph = "off"});
  const Trained tried = train_digits({.looks = true});

  EXPECT_THAT(tried.output, HasSubstr("no CUDA graph: "));
  EXPECT_LT(largest_difference(usual, tried), 1e-4);
}

}  // namespace
}  // namespace lockstep
