// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/zero/zero.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "lockstep/recompute.h"
#include "support/run_workers.h"
#include "support/tally.h"
#include "training/comm/solo.h"
#include "training/strategy/same_after_join.h"
#include "training/strategy/trained.h"
#include "training/strategy/zero/layout.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Buckets of odd sizes. At stage 3, some parameters stay whole and others are partitioned.
ZeroOptions stage(int number) {
  return {.stage = number, .bucket_elements = 700, .persistence_threshold = 40};
}

void expect_as_alone(int workers,
                     Training training,
                     const StrategyOptions& options,
                     bool overlaps = false) {
  comm::Solo solo;
  const torch::Tensor wanted = train_alone(solo, workers, training);
  training.strategy = "deepspeed";
  run_workers(workers, [&](Communicator& comm) {
    Tally tally(comm, overlaps);
    const torch::Tensor found = train(tally, options, training);
    EXPECT_LE(largest_difference(found, wanted), 1e-12)
        << "stage " << options.zero.stage << ", " << workers << " workers, " << training.accumulate
        << " shares, clip " << training.clip << ", " << training.optimizer.name << ", overlap "
        << overlaps;
    const torch::Tensor all = comm.all_gather(found);
    EXPECT_TRUE(all.eq(all[0]).all().item<bool>());
  });
}

class ZeroStage : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Every, ZeroStage, ::testing::Values(0, 1, 2, 3));

using ZeroWithWholeParameters = ZeroStage;

INSTANTIATE_TEST_SUITE_P(Stages, ZeroWithWholeParameters, ::testing::Values(0, 1, 2));

TEST_P(ZeroStage, TrainsAsOneProcessDoes) {
  for (const int workers : {1, 2, 3, 4}) {
    expect_as_alone(workers, {}, {.zero = stage(GetParam())});
    expect_as_alone(workers, {.accumulate = 2, .clip = 0.2}, {.zero = stage(GetParam())});
  }
}

TEST_P(ZeroStage, TrainsSoWithEveryOptimizer) {
  for (const char* name : {"adam", "adamw", "lamb", "adagrad"}) {
    const OptimizerOptions optimizer{.name = name, .lr = 0.02, .weight_decay = 0.01};
    for (const int workers : {2, 3}) {
      expect_as_alone(workers,
                      {.accumulate = 2, .clip = 0.2, .optimizer = optimizer},
                      {.zero = stage(GetParam())});
    }
  }
}

TEST_P(ZeroStage, TakesTheLengthsOfWholeParametersForLambWhereSomeAreUnused) {
  Training training{.optimizer = {.name = "lamb", .lr = 0.02}};
  training.uses_spare = [](int step, int, int) {
    return step > 2;
  };
  expect_as_alone(3, training, {.zero = stage(GetParam())});
}

TEST_P(ZeroStage, TrainsSoWithAThreadForTheExchange) {
  for (const int64_t prefetch : {0, 100'000}) {
    ZeroOptions zero = stage(GetParam());
    zero.prefetch_elements = prefetch;
    expect_as_alone(3, {.accumulate = 2, .clip = 0.2}, {.zero = zero}, true);
  }
}

TEST_P(ZeroStage, LeavesAloneAParameterThatNoWorkerUses) {
  Training training;
  training.uses_spare = [](int, int, int) {
    return false;
  };
  expect_as_alone(3, training, {.zero = stage(GetParam())});
}

TEST_P(ZeroStage, TakesGradientsThatOnlySomeHave) {
  Training training{.accumulate = 2, .clip = 0.2};
  training.uses_spare = [](int step, int rank, int part) {
    return step != 1 && (step != 2 || (rank == 2 && part == 0));
  };
  for (const bool overlaps : {false, true}) {
    expect_as_alone(3,
                    training,
                    {.find_unused_parameters = GetParam() == 3, .zero = stage(GetParam())},
                    overlaps);
  }
}

TEST_P(ZeroStage, TakesTheParametersOfRankZero) {
  run_workers(3, [](Communicator& comm) {
    Spared model;
    {
      torch::NoGradGuard no_grad;
      model.first->weight.add_(comm.rank());
    }
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const auto strategy = make_strategy("deepspeed", comm, {.zero = stage(GetParam())});
    strategy->adopt(model, sgd);
    const auto use = strategy->use_model();
    EXPECT_TRUE(flat_state(model).equal(flat_state(Spared())));
  });
}

// Features that a loss function can use: one block twice, recomputed in backward; a weight that is
// both embedding and classifier; frozen parameters; buffers.
struct Odd : torch::nn::Module {
  explicit Odd(bool recomputed) : recomputes(recomputed) {
    to(torch::kFloat64);
    frozen->weight.set_requires_grad(false);
    torch::NoGradGuard no_grad;
    torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{9});
    for (torch::Tensor& parameter : parameters()) {
      parameter.copy_(0.5 * torch::randn(parameter.sizes(), generator, parameter.options()));
    }
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor inner = torch::mm(input, embedding->weight.slice(0, 0, 12));
    inner = frozen(inner);
    for (int i = 0; i < 2; ++i) {
      inner = recomputes ? recompute(block, inner) : block->forward(inner);
    }
    return torch::linear(norm(inner), embedding->weight.slice(0, 0, 3));
  }

  bool recomputes;
  torch::nn::Embedding embedding = register_module("embedding", torch::nn::Embedding(13, 7));
  torch::nn::Linear frozen = register_module("frozen", torch::nn::Linear(7, 7));
  torch::nn::Sequential block =
      register_module("block", torch::nn::Sequential(torch::nn::Linear(7, 7), torch::nn::Tanh()));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(7));
};

// Every worker has the same batch, so that batch norm computes the same as in one process.
torch::Tensor train_odd(Strategy& strategy, Odd& model) {
  torch::optim::AdamW adam(model.parameters(), torch::optim::AdamWOptions(0.01));
  strategy.adopt(model, adam);
  for (int step = 0; step < 5; ++step) {
    strategy.accumulate(loss_of<Odd>(CrossEntropy()), sample(6, step), {});
    strategy.step({.clip_norm = 0.5});
  }
  const auto use = strategy.use_model();
  return flat_state(model);
}

TEST_P(ZeroStage, TrainsAnyModule) {
  comm::Solo solo;
  Odd alone(false);
  const torch::Tensor wanted = train_odd(*make_strategy("single", solo), alone);
  for (const bool recomputes : {false, true}) {
    for (const bool overlaps : {false, true}) {
      run_workers(2, [&](Communicator& comm) {
        Tally tally(comm, overlaps);
        Odd model(recomputes);
        ZeroOptions zero = stage(GetParam());
        zero.persistence_threshold = 10;
        const torch::Tensor found =
            train_odd(*make_strategy("deepspeed", tally, {.zero = zero}), model);
        EXPECT_LE(largest_difference(found, wanted), 1e-12) << recomputes << overlaps;
      });
    }
  }
}

TEST_P(ZeroStage, KeepsFloatCopiesOfShortParameters) {
  for (const torch::ScalarType type : {torch::kBFloat16, torch::kHalf}) {
    run_workers(2, [&](Communicator& comm) {
      torch::nn::Linear model(5, 3);
      const torch::Tensor start = torch::linspace(-0.5, 0.5, 15).view({3, 5});
      model->weight.set_data(start.clone());
      torch::optim::SGD sgd(model->parameters(), 1e-4);
      ZeroOptions zero = stage(GetParam());
      zero.persistence_threshold = 4;
      zero.parameter_type = type;
      const auto strategy = make_strategy("deepspeed", comm, {.zero = zero});
      strategy->adopt(*model, sgd);
      EXPECT_EQ(model->weight.scalar_type(), type);
      const torch::Tensor factor = torch::full({3, 5}, 1.0);
      for (int step = 0; step < 100; ++step) {
        strategy->accumulate(
            [&](torch::nn::Module&, const Batch&) {
              return Loss((model->weight * factor.to(type)).sum().to(torch::kFloat32));
            },
            {},
            {});
        strategy->step();
      }
      // A step of 1e-4 is lost in bfloat16 near 0.4; a hundred of them are not.
      const auto use = strategy->use_model();
      const torch::Tensor moved = start - model->weight.detach().to(torch::kFloat32);
      EXPECT_NEAR(moved.mean().item<double>(), 0.01, 5e-4);
    });
  }
}

TEST_P(ZeroStage, LeavesOutAStepThatIsNotFinite) {
  run_workers(3, [](Communicator& comm) {
    Spared model;
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const auto strategy = make_strategy("deepspeed", comm, {.zero = stage(GetParam())});
    strategy->adopt(model, sgd);
    Batch batch = sample(4, 1);
    if (comm.rank() == 1) {
      batch.input.fill_(std::numeric_limits<double>::infinity());
    }
    strategy->accumulate(loss_of<Spared>(CrossEntropy()), batch, {});
    EXPECT_FALSE(strategy->step({.check_finite = true}).applied);
    strategy->accumulate(loss_of<Spared>(CrossEntropy()), sample(4, 2), {.weight = 8});
    const StepResult result =
        strategy->step({.clip_norm = 1, .loss_scale = 8, .check_finite = true});
    EXPECT_TRUE(result.applied);
    const torch::Tensor norms = comm.all_gather(torch::full({1}, result.norm, torch::kFloat64));
    EXPECT_TRUE(norms.eq(norms[0]).all().item<bool>());
    EXPECT_GT(result.norm, 0);
  });
}

// Workers without batches still update their shard.
TEST_P(ZeroWithWholeParameters, GoOnUntilAllHaveJoined) {
  expect_same_after_join({.strategy = "deepspeed",
                          .options = {.zero = stage(GetParam())},
                          .step = {.clip_norm = 0.3},
                          .has_whole_state = false});
}

// The remaining worker must get the error, although libtorch lets no exception out of an operator.
TEST_P(ZeroStage, ReportsALostPeer) {
  EXPECT_THAT(
      [] {
        run_workers(2, [](Communicator& comm) {
          Spared model;
          torch::optim::SGD sgd(model.parameters(), 0.1);
          const auto strategy = make_strategy("deepspeed", comm, {.zero = stage(GetParam())});
          strategy->adopt(model, sgd);
          if (comm.rank() == 1) {
            throw Error(ExitCode::Io, "cannot read the data");
          }
          const auto train_step = [&] {
            strategy->accumulate(loss_of<Spared>(CrossEntropy()), sample(4, 1), {});
            strategy->step();
          };
          EXPECT_THROW(train_step(), Error);
        });
      },
      ThrowsMessage<Error>(HasSubstr("cannot read the data")));
}

// Stage 1 reduces after the last micro-batch. From stage 2 on, each micro-batch is reduced, so that
// no whole gradient is kept.
TEST(Zero, SendsEachPacketOnce) {
  for (const auto& [number, shares] : {std::pair(1, 1), std::pair(2, 3), std::pair(3, 3)}) {
    run_workers(2, [&, each = number, times = shares](Communicator& comm) {
      Tally tally(comm);
      Training training{.strategy = "deepspeed", .steps = 1, .accumulate = 3};
      train(tally, {.zero = stage(each)}, training);
      const auto flat_parameters =
          strategy::zero::plan_flat_parameters(Spared(), stage(each)).size();
      EXPECT_EQ(tally.take_scatters(), static_cast<int64_t>(flat_parameters) * times)
          << "stage " << each;
    });
  }
}

TEST(Zero, HoldsWhatIsInUseOnlyAtStageThree) {
  run_workers(2, [](Communicator& comm) {
    Spared model;
    torch::optim::SGD sgd(model.parameters(), 0.1);
    const auto strategy = make_strategy("deepspeed", comm, {.zero = stage(3)});
    strategy->adopt(model, sgd);
    EXPECT_EQ(model.second->weight.storage().nbytes(), 0U);
    EXPECT_GT(model.second->bias.storage().nbytes(), 0U);  // below the threshold
    strategy->accumulate(
        [](torch::nn::Module& module, const Batch& batch) {
          auto& spared = dynamic_cast<Spared&>(module);
          Loss loss = CrossEntropy()(spared, batch);
          EXPECT_EQ(spared.second->weight.storage().nbytes(), 0U);
          EXPECT_GT(spared.spare->weight.storage().nbytes(), 0U);  // last used
          return loss;
        },
        sample(4, 1),
        {});
    strategy->step();
    for (const torch::Tensor& parameter : model.parameters()) {
      EXPECT_EQ(parameter.storage().nbytes() == 0, parameter.numel() >= 40);
    }
    int64_t held = 0;
    const auto updated = strategy->updated();
    for (const TensorPiece& piece : updated.value()) {
      held += piece.values.numel();
    }
    EXPECT_NEAR(
        static_cast<double>(held), static_cast<double>(flat_state(Spared()).numel()) / 2, 4);
  });
}

TEST(Zero, RefusesWhatItCannotDo) {
  comm::Solo solo;
  EXPECT_THAT([&] { make_strategy("deepspeed", solo, {.zero = {.stage = 4}}); },
              ThrowsMessage<Error>("unknown ZeRO stage 4\n"
                                   "  available: 0, 1, 2, 3\n"
                                   "  try:       --zero-stage 2"));
  EXPECT_THAT([&] { make_strategy("deepspeed", solo, {.compression = Compression::Bf16}); },
              ThrowsMessage<Error>(HasSubstr("-s deepspeed does not support --compression")));
  EXPECT_THAT([&] { make_strategy("deepspeed", solo, {.uneven = true, .zero = {.stage = 3}}); },
              ThrowsMessage<Error>(HasSubstr("ZeRO stage 3 does not support uneven inputs")));
}

TEST(Zero, GivesAnOptimizerBackThatCanMakeSteps) {
  comm::Solo solo;
  for (const char* name : {"sgd", "adamw", "lamb", "adagrad"}) {
    Spared model;
    const auto optimizer = make_optimizer(model.parameters(), {.name = name, .lr = 0.01});
    const auto strategy = make_strategy("deepspeed", solo, {.zero = stage(2)});
    strategy->adopt(model, *optimizer);
    strategy->accumulate(loss_of<Spared>(CrossEntropy()), sample(4, 1), {});
    strategy->step();
    strategy->leave();
    const torch::Tensor before = flat_state(model);
    CrossEntropy()(model, sample(4, 2)).value.backward();
    optimizer->step();
    EXPECT_FALSE(flat_state(model).equal(before)) << name;
  }
}

TEST(Zero, RefusesAnOptimizerOfOtherParametersOrWithState) {
  comm::Solo solo;
  Spared model;
  Spared other;
  torch::optim::SGD foreign(other.parameters(), 0.1);
  EXPECT_THAT([&] { make_strategy("deepspeed", solo)->adopt(model, foreign); },
              ThrowsMessage<Error>(HasSubstr("a parameter that is not in the model")));
  torch::optim::SGD used(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  model.forward(sample(2, 1).input).sum().backward();
  used.step();
  EXPECT_THAT([&] { make_strategy("deepspeed", solo)->adopt(model, used); },
              ThrowsMessage<Error>(HasSubstr("optimizer that has already made a step")));
}

}  // namespace
}  // namespace lockstep
