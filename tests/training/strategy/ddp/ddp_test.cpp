// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "lockstep/strategy.h"
#include "support/run_workers.h"
#include "training/comm/solo.h"

namespace lockstep {
namespace {

using ::testing::ThrowsMessage;

struct TwoLayers : torch::nn::Module {
  explicit TwoLayers(int64_t width = 8)
      : first(register_module("first", torch::nn::Linear(4, width))),
        norm(register_module("norm", torch::nn::BatchNorm1d(width))),
        second(register_module("second", torch::nn::Linear(width, 3))),
        spare(register_module("spare", torch::nn::Linear(4, 3))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor scores = second(torch::relu(norm(first(input))));
    return uses_spare ? scores + spare(input) : scores;
  }

  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear second;
  torch::nn::Linear spare;
  bool uses_spare = true;
};

Batch batch_of(int seed) {
  torch::Generator generator =
      torch::make_generator<torch::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  return {torch::randn({6, 4}, generator), torch::randint(3, {6}, generator)};
}

TEST(MakeStrategy, ListsTheNamesWhenOneIsMisspelt) {
  comm::Solo solo;
  EXPECT_THAT([&] { make_strategy("ddpp", solo); },
              ThrowsMessage<Error>("unknown strategy 'ddpp'\n"
                                   "  requested: -s ddpp  (command line)\n"
                                   "  available: single, ddp, horovod, deepspeed, mirrored\n"
                                   "  try:       -s ddp"));
}

TEST(Single, RefusesSeveralWorkers) {
  run_workers(2, [](Communicator& comm) {
    EXPECT_THAT([&] { make_strategy("single", comm); },
                ThrowsMessage<Error>("-s single supports one worker, not 2\n"
                                     "  requested: -s single  (command line)\n"
                                     "  workers:   2  (threads)\n"
                                     "  try:       -s ddp, or start one worker"));
  });
}

TEST(Ddp, StartsEveryWorkerFromRankZero) {
  run_workers(3, [](Communicator& comm) {
    TwoLayers model;
    {
      torch::NoGradGuard no_grad;
      for (torch::Tensor& parameter : model.parameters()) {
        parameter.fill_(comm.rank());
      }
      model.norm->running_mean.fill_(comm.rank() + 5);
    }
    torch::optim::SGD sgd(model.parameters(), 0.1);

    make_strategy("ddp", comm)->adopt(model, sgd);

    for (const torch::Tensor& parameter : model.parameters()) {
      EXPECT_TRUE(parameter.detach().eq(0).all().item<bool>());
    }
    EXPECT_TRUE(model.norm->running_mean.eq(5).all().item<bool>());
  });
}

TEST(Ddp, NamesTheFirstDifferenceBetweenModelsAndBothRanks) {
  run_workers(3, [](Communicator& comm) {
    TwoLayers model(comm.rank() == 2 ? 9 : 8);
    torch::optim::SGD sgd(model.parameters(), 0.1);
    EXPECT_THAT([&] { make_strategy("ddp", comm)->adopt(model, sgd); },
                ThrowsMessage<Error>("ranks 0 and 2 have different models\n"
                                     "  rank 0: parameter 'first.weight' [8, 4] Float\n"
                                     "  rank 2: parameter 'first.weight' [9, 4] Float\n"
                                     "  try:    build the model from the same options on every "
                                     "worker"));
  });
}

TEST(Ddp, RefusesAModelWithNothingToTrain) {
  run_workers(2, [](Communicator& comm) {
    TwoLayers model;
    for (torch::Tensor& parameter : model.parameters()) {
      parameter.set_requires_grad(false);
    }
    torch::optim::SGD sgd(model.parameters(), 0.1);
    EXPECT_THAT([&] { make_strategy("ddp", comm)->adopt(model, sgd); },
                ThrowsMessage<Error>("the model has no parameter that requires a gradient"));
  });
}

TEST(Ddp, KeepsParametersOutOfAStepThatNoWorkerUses) {
  run_workers(2, [](Communicator& comm) {
    TwoLayers model;
    model.uses_spare = false;
    torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const auto strategy = make_strategy("ddp", comm, {.find_unused_parameters = true});
    strategy->adopt(model, sgd);
    const torch::Tensor spare = model.spare->weight.detach().clone();
    const torch::Tensor first = model.first->weight.detach().clone();

    for (int step = 0; step < 3; ++step) {
      strategy->accumulate(loss_of<TwoLayers>(CrossEntropy()), batch_of(step + comm.rank()), {});
      strategy->step();
    }

    EXPECT_TRUE(model.spare->weight.detach().equal(spare));
    EXPECT_FALSE(model.first->weight.detach().equal(first));
  });
}

TEST(Ddp, AveragesParametersThatSomeWorkersUse) {
  run_workers(2, [](Communicator& comm) {
    TwoLayers model;
    model.uses_spare = comm.rank() == 0;
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const auto strategy = make_strategy("ddp", comm, {.find_unused_parameters = true});
    strategy->adopt(model, sgd);

    strategy->accumulate(loss_of<TwoLayers>(CrossEntropy()), batch_of(comm.rank()), {});
    strategy->step();

    const torch::Tensor all = comm.all_gather(model.spare->weight.detach());
    EXPECT_TRUE(all[0].equal(all[1]));
  });
}

TEST(Ddp, GivesBuffersOfRankZeroToAllBeforeAStep) {
  run_workers(2, [](Communicator& comm) {
    TwoLayers model;
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const auto strategy = make_strategy("ddp", comm);
    strategy->adopt(model, sgd);
    model.norm->running_var.fill_(comm.rank() == 0 ? 7 : 100);
    torch::Tensor seen;

    strategy->accumulate(
        [&seen](torch::nn::Module& any, const Batch& batch) {
          auto& own = dynamic_cast<TwoLayers&>(any);
          seen = own.norm->running_var.clone();
          return CrossEntropy()(own, batch);
        },
        batch_of(1),
        {});

    EXPECT_TRUE(seen.eq(7).all().item<bool>());
  });
}

TEST(Ddp, ClipsTheAveragedGradient) {
  run_workers(2, [](Communicator& comm) {
    TwoLayers model;
    torch::optim::SGD sgd(model.parameters(), 1.0);
    const auto strategy = make_strategy("ddp", comm);
    strategy->adopt(model, sgd);
    std::vector<torch::Tensor> before;
    for (const torch::Tensor& parameter : model.parameters()) {
      before.push_back(parameter.detach().clone());
    }

    strategy->accumulate(loss_of<TwoLayers>(CrossEntropy()), batch_of(comm.rank()), {});
    const double norm = strategy->step({.clip_norm = 0.01}).norm;

    double moved = 0;
    const auto after = model.parameters();
    for (size_t i = 0; i < before.size(); ++i) {
      moved += (after[i].detach() - before[i]).pow(2).sum().item<double>();
    }
    EXPECT_GT(norm, 0.01);
    EXPECT_NEAR(std::sqrt(moved), 0.01, 1e-4);
  });
}

}  // namespace
}  // namespace lockstep
