// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <limits>

#include "lockstep/error.h"
#include "lockstep/strategy.h"
#include "support/run_workers.h"
#include "training/comm/solo.h"
#include "training/strategy/horovod/adasum.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Branches : torch::nn::Module {
  Branches()
      : first(register_module("first", torch::nn::Linear(4, 8))),
        norm(register_module("norm", torch::nn::BatchNorm1d(8))),
        second(register_module("second", torch::nn::Linear(8, 3))),
        spare(register_module("spare", torch::nn::Linear(4, 3))),
        unused(register_module("unused", torch::nn::Linear(4, 3))) {
    to(torch::kFloat64);
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor hidden = first(input);
    if (uses_norm) {
      hidden = norm(hidden);
    }
    const torch::Tensor scores = second(torch::tanh(hidden));
    return uses_spare ? scores + spare(input) : scores;
  }

  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear second;
  torch::nn::Linear spare;
  torch::nn::Linear unused;
  bool uses_spare = true;
  bool uses_norm = false;
};

Batch batch_of(int seed, int64_t size = 6) {
  torch::Generator generator =
      torch::make_generator<torch::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  return {torch::randn({size, 4}, generator, torch::dtype(torch::kFloat64)),
          torch::randint(3, {size}, generator)};
}

LossFunction loss() {
  return loss_of<Branches>(CrossEntropy());
}

void fill(torch::nn::Module& model, int seed) {
  torch::NoGradGuard no_grad;
  torch::Generator generator =
      torch::make_generator<torch::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  for (torch::Tensor& parameter : model.parameters()) {
    parameter.copy_(torch::randn(parameter.sizes(), generator, parameter.options()) * 0.3);
  }
}

torch::Tensor flat(const torch::nn::Module& model) {
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& parameter : model.parameters()) {
    all.push_back(parameter.detach().flatten());
  }
  return torch::cat(all);
}

bool is_same_on_all(Communicator& comm, const torch::Tensor& tensor) {
  const torch::Tensor all = comm.all_gather(tensor);
  return all.eq(all[0]).all().item<bool>();
}

// One process that trains the batches of all workers.
struct Alone {
  Alone(double lr, double momentum)
      : sgd(model.parameters(), torch::optim::SGDOptions(lr).momentum(momentum)),
        strategy(make_strategy("single", solo)) {
    fill(model, 0);
    strategy->adopt(model, sgd);
  }

  comm::Solo solo;
  Branches model;
  torch::optim::SGD sgd;
  std::unique_ptr<Strategy> strategy;
};

Batch together(int workers, int seed) {
  std::vector<torch::Tensor> inputs;
  std::vector<torch::Tensor> targets;
  for (int rank = 0; rank < workers; ++rank) {
    const Batch batch = batch_of(seed + rank);
    inputs.push_back(batch.input);
    targets.push_back(batch.target);
  }
  return {torch::cat(inputs), torch::cat(targets)};
}

// Trains several workers under `options` and one process; returns the largest difference of a
// parameter.
double drift(Communicator& comm, const StrategyOptions& options, double clip_norm = 0) {
  Alone alone(0.1, 0.9);
  Branches model;
  fill(model, comm.rank());
  torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const auto strategy = make_strategy("horovod", comm, options);
  strategy->adopt(model, sgd);
  for (int step = 0; step < 5; ++step) {
    strategy->accumulate(loss(), batch_of(10 * step + comm.rank()), {});
    const StepResult here = strategy->step({.clip_norm = clip_norm});
    alone.strategy->accumulate(loss(), together(comm.size(), 10 * step), {});
    const StepResult there = alone.strategy->step({.clip_norm = clip_norm});
    EXPECT_NEAR(here.norm, there.norm, 1e-10);
    EXPECT_TRUE(is_same_on_all(comm, flat(model)));
  }
  return (flat(model) - flat(alone.model)).abs().max().item<double>();
}

TEST(Horovod, TrainsAsOneProcessWhateverTheExchange) {
  for (const int workers : {2, 3}) {
    run_workers(workers, [](Communicator& comm) {
      EXPECT_LE(drift(comm, {}), 1e-12);
      EXPECT_LE(drift(comm, {}, 0.05), 1e-12);
      EXPECT_LE(drift(comm, {.overlap = false}), 1e-12);
      EXPECT_LE(drift(comm, {.uneven = true}), 1e-12);
      EXPECT_LE(drift(comm, {.horovod = {.fusion_bytes = 0}}), 1e-12);
      EXPECT_LE(drift(comm, {.horovod = {.cycle_ms = 0, .cache_capacity = 2}}), 1e-12);
      EXPECT_LE(drift(comm, {.horovod = {.predivide_factor = 3}}), 1e-12);
      EXPECT_LE(drift(comm, {.compression = Compression::Fp16}), 1e-2);
      EXPECT_LE(drift(comm, {.compression = Compression::Bf16}), 5e-2);
    });
  }
}

TEST(Horovod, SumsWithoutDivisionWhenAskedTo) {
  run_workers(2, [](Communicator& comm) {
    Alone alone(0.2, 0);  // twice the rate: the sum of two is twice their average
    Branches model;
    fill(model, 0);
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const auto strategy = make_strategy("horovod", comm, {.horovod = {.reduction = "sum"}});
    strategy->adopt(model, sgd);

    strategy->accumulate(loss(), batch_of(comm.rank()), {});
    strategy->step();
    alone.strategy->accumulate(loss(), together(2, 0), {});
    alone.strategy->step();

    EXPECT_TRUE(torch::allclose(flat(model), flat(alone.model), 0, 1e-12));
  });
}

TEST(Horovod, ExchangesInTheLastMicroBatchOnly) {
  run_workers(2, [](Communicator& comm) {
    Alone alone(0.1, 0);
    Branches model;
    fill(model, 0);
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const auto strategy = make_strategy("horovod", comm);
    strategy->adopt(model, sgd);

    const Batch mine = batch_of(comm.rank());
    for (int part = 0; part < 3; ++part) {
      // The spare branch gets a gradient from the first micro-batch only.
      model.uses_spare = part == 0;
      strategy->accumulate(
          loss(), mine.slice(part * 2, part * 2 + 2), {.weight = 1.0 / 3, .last = part == 2});
    }
    strategy->step();
    for (int part = 0; part < 3; ++part) {
      alone.model.uses_spare = part == 0;
      for (int rank = 0; rank < 2; ++rank) {
        alone.strategy->accumulate(
            loss(), batch_of(rank).slice(part * 2, part * 2 + 2), {.weight = 1.0 / 6});
      }
    }
    alone.strategy->step();

    EXPECT_TRUE(torch::allclose(flat(model), flat(alone.model), 0, 1e-12));
    EXPECT_TRUE(is_same_on_all(comm, flat(model)));
  });
}

TEST(Horovod, LeavesParametersAloneThatNoWorkerUses) {
  run_workers(2, [](Communicator& comm) {
    Branches model;
    torch::optim::SGD sgd(model.parameters(),
                          torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.1));
    const auto strategy = make_strategy("horovod", comm);
    strategy->adopt(model, sgd);
    const torch::Tensor before = model.unused->weight.detach().clone();

    for (int step = 0; step < 3; ++step) {
      strategy->accumulate(loss(), batch_of(step + comm.rank()), {});
      strategy->step();
    }

    EXPECT_TRUE(model.unused->weight.detach().equal(before));
  });
}

TEST(Horovod, CountsAParameterThatAWorkerDoesNotUseAsZero) {
  for (const bool overlap : {true, false}) {
    run_workers(3, [&](Communicator& comm) {
      Branches model;
      fill(model, 0);
      // A different worker in each step.
      torch::optim::SGD sgd(model.parameters(), 0.1);
      const auto strategy = make_strategy("horovod", comm, {.overlap = overlap});
      strategy->adopt(model, sgd);
      Alone alone(0.1, 0);
      for (int step = 0; step < 4; ++step) {
        model.uses_spare = comm.rank() == step % 3;
        strategy->accumulate(loss(), batch_of(step + comm.rank()), {});
        strategy->step();
        for (int rank = 0; rank < 3; ++rank) {
          alone.model.uses_spare = rank == step % 3;
          alone.strategy->accumulate(loss(), batch_of(step + rank), {.weight = 1.0 / 3});
        }
        alone.strategy->step();
      }

      EXPECT_TRUE(torch::allclose(flat(model), flat(alone.model), 0, 1e-12));
      EXPECT_TRUE(is_same_on_all(comm, flat(model)));
    });
  }
}

TEST(Horovod, SharesTheOptimizersStateAtTheStart) {
  run_workers(2, [](Communicator& comm) {
    Branches model;
    fill(model, 0);
    torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    if (comm.rank() == 0) {
      CrossEntropy()(model, batch_of(1)).value.backward();
      sgd.step();
      sgd.zero_grad();
    }
    const auto strategy = make_strategy("horovod", comm);
    strategy->adopt(model, sgd);

    strategy->accumulate(loss(), batch_of(2), {});
    strategy->step();

    EXPECT_TRUE(is_same_on_all(comm, flat(model)));
  });
}

TEST(Horovod, NamesTheFirstDifferenceBetweenModels) {
  run_workers(2, [](Communicator& comm) {
    torch::nn::Sequential model(torch::nn::Linear(4, comm.rank() == 1 ? 5 : 4));
    torch::optim::SGD sgd(model->parameters(), 0.1);
    EXPECT_THAT([&] { make_strategy("horovod", comm)->adopt(*model, sgd); },
                ThrowsMessage<Error>(HasSubstr("ranks 0 and 1 have different models")));
  });
}

TEST(Horovod, GivesBuffersOfRankZeroToAllBeforeAStep) {
  for (const bool uneven : {false, true}) {
    run_workers(2, [&](Communicator& comm) {
      Branches model;
      torch::optim::SGD sgd(model.parameters(), 0.1);
      const auto strategy = make_strategy("horovod", comm, {.uneven = uneven});
      strategy->adopt(model, sgd);
      model.norm->running_var.fill_(comm.rank() == 0 ? 7 : 100);
      model.norm->num_batches_tracked.fill_(comm.rank() == 0 ? 3 : 4);

      strategy->accumulate(loss(), batch_of(1), {});

      EXPECT_TRUE(model.norm->running_var.eq(7).all().item<bool>());
      EXPECT_EQ(model.norm->num_batches_tracked.item<int64_t>(), 3);
      strategy->step();
    });
  }
}

TEST(Horovod, LetsWorkersWithFewerBatchesJoin) {
  run_workers(3, [](Communicator& comm) {
    Branches model;
    model.uses_norm = true;
    torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const auto strategy = make_strategy("horovod", comm, {.uneven = true});
    strategy->adopt(model, sgd);
    // Rank 1 trains the most steps.
    const int steps[] = {2, 5, 3};
    for (int step = 0; step < steps[comm.rank()]; ++step) {
      strategy->accumulate(loss(), batch_of(step * 3 + comm.rank()), {});
      strategy->step();
    }
    const torch::Tensor mine = flat(model);

    EXPECT_EQ(strategy->join(), 1);

    EXPECT_TRUE(is_same_on_all(comm, flat(model)));
    EXPECT_TRUE(is_same_on_all(comm, model.norm->running_mean));
    EXPECT_EQ(comm.rank() == 1, flat(model).equal(mine));
    // The optimizer state was copied, so further steps stay equal.
    strategy->accumulate(loss(), batch_of(comm.rank()), {});
    strategy->step();
    EXPECT_TRUE(is_same_on_all(comm, flat(model)));
  });
}

TEST(Horovod, AveragesOverAllWorkersWhenSomeHaveJoined) {
  run_workers(2, [](Communicator& comm) {
    Alone alone(0.1, 0);
    Branches model;
    fill(model, 0);
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const auto strategy = make_strategy("horovod", comm, {.broadcast_buffers = false});
    strategy->adopt(model, sgd);
    if (comm.rank() == 0) {
      strategy->accumulate(loss(), batch_of(4), {});
      strategy->step();
    }
    strategy->join();
    alone.strategy->accumulate(loss(), batch_of(4), {.weight = 0.5});
    alone.strategy->step();

    EXPECT_TRUE(torch::allclose(flat(model), flat(alone.model), 0, 1e-12));
  });
}

TEST(Horovod, RefusesToJoinWhereBuffersFollowRankZero) {
  run_workers(2, [](Communicator& comm) {
    Branches model;
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const auto strategy = make_strategy("horovod", comm);
    strategy->adopt(model, sgd);
    EXPECT_THAT(
        [&] { strategy->join(); },
        ThrowsMessage<Error>(
            "cannot join: the model has buffers that rank 0 broadcasts in every step\n"
            "  first buffer: norm.running_mean\n"
            "  try:          StrategyOptions::uneven = true, or broadcast_buffers = false"));
  });
}

TEST(Horovod, SaysThatAWorkerHasNoMoreBatches) {
  run_workers(2, [](Communicator& comm) {
    Branches model;
    torch::optim::SGD sgd(model.parameters(), 0.1);
    auto strategy = make_strategy("horovod", comm, {.broadcast_buffers = false});
    strategy->adopt(model, sgd);
    if (comm.rank() == 1) {
      strategy.reset();
      return;
    }
    EXPECT_THAT(
        [&] {
          strategy->accumulate(loss(), batch_of(4), {});
          strategy->step();
        },
        ThrowsMessage<Error>(HasSubstr("rank 1 has left the exchange of gradients")));
  });
}

// A parameter whose gradient is written twice in one backward.
struct Twice : torch::autograd::Function<Twice> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& x,
                               const torch::Tensor& weight) {
    context->saved_data["weight"] = weight;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::Tensor weight = context->saved_data["weight"].toTensor();
    torch::AutoGradMode grad(true);
    weight.sum().backward();
    return {gradients[0], torch::Tensor()};
  }
};

TEST(Horovod, SaysThatAGradientCameTwiceInOneBackward) {
  run_workers(2, [](Communicator& comm) {
    Branches model;
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const LossFunction twice = [](torch::nn::Module& any, const Batch& batch) -> Loss {
      auto& own = dynamic_cast<Branches&>(any);
      const torch::Tensor scores = Twice::apply(own.forward(batch.input), own.second->weight);
      return torch::nn::functional::cross_entropy(scores, batch.target);
    };
    {
      const auto strategy = make_strategy("horovod", comm);
      strategy->adopt(model, sgd);
      EXPECT_THAT([&] { strategy->accumulate(twice, batch_of(1), {}); },
                  ThrowsMessage<Error>("the gradient of 'second.weight' became ready twice in one "
                                       "backward pass\n"
                                       "  reason: backward adds to it in two places, for example "
                                       "with --recompute\n"
                                       "  try:    --no-overlap"));
    }
    for (const torch::Tensor& parameter : model.parameters()) {
      parameter.mutable_grad() = torch::Tensor();
    }
    const auto strategy = make_strategy("horovod", comm, {.overlap = false});
    strategy->adopt(model, sgd);
    strategy->accumulate(twice, batch_of(1), {});
    strategy->step();
    EXPECT_TRUE(is_same_on_all(comm, flat(model)));
  });
}

TEST(Horovod, CombinesTheStepsOfEachWorkerByAdasum) {
  for (const int workers : {1, 2, 4}) {
    run_workers(workers, [](Communicator& comm) {
      Branches model;
      fill(model, 0);
      torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      const auto strategy = make_strategy("horovod", comm, {.horovod = {.reduction = "adasum"}});
      strategy->adopt(model, sgd);
      // One process per rank, each with its own optimizer.
      std::vector<std::unique_ptr<Alone>> alone;
      for (int rank = 0; rank < comm.size(); ++rank) {
        alone.push_back(std::make_unique<Alone>(0.1, 0.9));
      }
      for (int step = 0; step < 3; ++step) {
        strategy->accumulate(loss(), batch_of(step * 5 + comm.rank()), {});
        strategy->step();

        std::vector<std::vector<torch::Tensor>> deltas(alone[0]->model.parameters().size());
        const auto start = alone[0]->model.parameters();
        std::vector<torch::Tensor> before;
        for (const torch::Tensor& parameter : start) {
          before.push_back(parameter.detach().clone());
        }
        for (int rank = 0; rank < comm.size(); ++rank) {
          Alone& one = *alone[static_cast<size_t>(rank)];
          one.strategy->accumulate(loss(), batch_of(step * 5 + rank), {});
          one.strategy->step();
          const auto after = one.model.parameters();
          for (size_t i = 0; i < after.size(); ++i) {
            deltas[i].push_back((after[i].detach() - before[i]).flatten());
          }
        }
        torch::NoGradGuard no_grad;
        for (size_t i = 0; i < deltas.size(); ++i) {
          const torch::Tensor delta = strategy::horovod::adasum_tree(torch::stack(deltas[i]));
          for (const auto& one : alone) {
            one->model.parameters()[i].copy_(before[i] + delta.view(before[i].sizes()));
          }
        }
        EXPECT_TRUE(torch::allclose(flat(model), flat(alone[0]->model), 0, 1e-12));
        EXPECT_TRUE(is_same_on_all(comm, flat(model)));
      }
    });
  }
}

TEST(Horovod, LeavesAStepOutOnAllWorkersUnderAdasumWhenOneOverflows) {
  run_workers(2, [](Communicator& comm) {
    Branches model;
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const auto strategy = make_strategy("horovod", comm, {.horovod = {.reduction = "adasum"}});
    strategy->adopt(model, sgd);
    const torch::Tensor before = flat(model);

    Batch batch = batch_of(1);
    if (comm.rank() == 1) {
      batch.input = batch.input / 0;
    }
    strategy->accumulate(loss(), batch, {.weight = 1024});
    EXPECT_FALSE(strategy->step({.loss_scale = 1024}).applied);

    EXPECT_TRUE(flat(model).equal(before));
  });
}

// With a dynamic loss scale that has fallen to 1, gradients must still be checked.
TEST(Horovod, LeavesAStepOutOnAllWorkersUnderAdasumWithoutALossScale) {
  run_workers(2, [](Communicator& comm) {
    Branches model;
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const auto strategy = make_strategy("horovod", comm, {.horovod = {.reduction = "adasum"}});
    strategy->adopt(model, sgd);
    const torch::Tensor before = flat(model);

    const double weight = comm.rank() == 1 ? std::numeric_limits<double>::infinity() : 1;
    strategy->accumulate(loss(), batch_of(1), {.weight = weight});
    EXPECT_FALSE(strategy->step({.check_finite = true}).applied);

    EXPECT_TRUE(flat(model).equal(before));
  });
}

}  // namespace
}  // namespace lockstep
