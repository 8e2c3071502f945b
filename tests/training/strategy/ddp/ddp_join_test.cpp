// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "support/run_workers.h"
#include "support/tally.h"
#include "training/comm/solo.h"
#include "training/strategy/trained.h"

namespace lockstep {
namespace {

using ::testing::ThrowsMessage;

torch::optim::SGDOptions rule() {
  return torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01);
}

// The number of steps of each rank, for each pass over the data.
using Lengths = std::vector<std::vector<int>>;

struct Uneven {
  Lengths passes;
  int accumulate = 1;
  bool uses_spare = true;
};

int number_of(int pass, int step, int rank, int part) {
  return pass * 10000 + sample_number(step, rank, part);
}

// Trains until all workers have joined, for each pass; returns the parameters.
torch::Tensor train_uneven(Communicator& comm,
                           StrategyOptions options,
                           const Uneven& plan,
                           std::vector<int>* last_to_join = nullptr) {
  options.uneven = true;
  options.first_bucket_bytes = 1 << 10;
  options.bucket_bytes = 4 << 10;
  Spared model;
  model.uses_spare = plan.uses_spare;
  torch::optim::SGD sgd(model.parameters(), rule());
  const auto strategy = make_strategy("ddp", comm, options);
  strategy->adopt(model, sgd);
  for (size_t pass = 0; pass < plan.passes.size(); ++pass) {
    for (int step = 0; step < plan.passes[pass][static_cast<size_t>(comm.rank())]; ++step) {
      for (int part = 0; part < plan.accumulate; ++part) {
        strategy->accumulate(
            loss_of<Spared>(CrossEntropy()),
            sample(4, number_of(static_cast<int>(pass), step, comm.rank(), part)),
            {.weight = 1.0 / plan.accumulate, .last = part + 1 == plan.accumulate});
      }
      strategy->step();
    }
    const int last = strategy->join();
    if (last_to_join != nullptr) {
      last_to_join->push_back(last);
    }
  }
  return flat_state(model);
}

// The expected result: a worker without a batch contributes nothing to the sum, which is still
// divided by the number of all workers.
torch::Tensor train_uneven_alone(int workers, const Uneven& plan) {
  comm::Solo solo;
  Spared model;
  model.uses_spare = plan.uses_spare;
  torch::optim::SGD sgd(model.parameters(), rule());
  const auto strategy = make_strategy("single", solo);
  strategy->adopt(model, sgd);
  for (size_t pass = 0; pass < plan.passes.size(); ++pass) {
    const std::vector<int>& lengths = plan.passes[pass];
    for (int step = 0; step < *std::max_element(lengths.begin(), lengths.end()); ++step) {
      for (int rank = 0; rank < workers; ++rank) {
        for (int part = 0; part < plan.accumulate && step < lengths[static_cast<size_t>(rank)];
             ++part) {
          strategy->accumulate(loss_of<Spared>(CrossEntropy()),
                               sample(4, number_of(static_cast<int>(pass), step, rank, part)),
                               {.weight = 1.0 / (workers * plan.accumulate), .last = false});
        }
      }
      strategy->step();
    }
  }
  return flat_state(model);
}

void expect_as_alone(const StrategyOptions& options, const Uneven& plan, bool overlaps = false) {
  const int size = static_cast<int>(plan.passes.front().size());
  const torch::Tensor wanted = train_uneven_alone(size, plan);
  run_workers(size, [&](Communicator& comm) {
    Tally tally(comm, overlaps);
    const torch::Tensor found = train_uneven(tally, options, plan);
    EXPECT_LT(largest_difference(found, wanted), 1e-13);
    const torch::Tensor everyone = comm.all_gather(found);
    EXPECT_TRUE(everyone.eq(everyone[0]).all().item<bool>());
  });
}

TEST(DdpJoin, GoesAlongWithTheOthersUntilAllHaveJoined) {
  for (const Lengths& passes : {Lengths{{3, 5}},
                                Lengths{{5, 3}},
                                Lengths{{4, 4}},
                                Lengths{{0, 3}},
                                Lengths{{2, 0, 4}},
                                Lengths{{0, 0, 0}},
                                Lengths{{1, 4, 2, 3}}}) {
    expect_as_alone({}, {.passes = passes});
  }
}

TEST(DdpJoin, GoesOnWithTheNextPass) {
  expect_as_alone({}, {.passes = {{1, 3, 0}, {2, 0, 1}, {0, 2, 2}}});
}

TEST(DdpJoin, GoesAlongUnderEveryOtherOption) {
  const Uneven plan{.passes = {{1, 4, 0}, {3, 1, 2}}};
  Uneven twice = plan;
  twice.accumulate = 2;
  Uneven spared = plan;
  spared.uses_spare = false;
  for (const bool overlap : {true, false}) {
    for (const bool overlaps : {true, false}) {
      expect_as_alone({.overlap = overlap}, twice, overlaps);
      expect_as_alone({.find_unused_parameters = true, .overlap = overlap}, spared, overlaps);
      expect_as_alone({.find_unused_parameters = true, .overlap = overlap}, plan, overlaps);
    }
  }
}

TEST(DdpJoin, GoesAlongWhenGradientsAreMadeSmaller) {
  for (const Compression compression :
       {Compression::Fp16, Compression::Bf16, Compression::PowerSgd}) {
    run_workers(3, [&](Communicator& comm) {
      const Uneven plan{.passes = {{1, 4, 0}, {3, 1, 2}}};
      const torch::Tensor found = train_uneven(
          comm, {.compression = compression, .powersgd_rank = 8, .powersgd_start = 2}, plan);
      EXPECT_LT(largest_difference(found, train_uneven_alone(3, plan)), 2e-2);
      const torch::Tensor everyone = comm.all_gather(found);
      EXPECT_TRUE(everyone.eq(everyone[0]).all().item<bool>());
    });
  }
}

TEST(DdpJoin, ReportsTheRankThatJoinedLast) {
  run_workers(3, [](Communicator& comm) {
    std::vector<int> last;
    train_uneven(comm, {}, {.passes = {{2, 5, 1}, {3, 1, 0}, {2, 2, 1}}}, &last);
    EXPECT_THAT(last, ::testing::ElementsAre(1, 0, 1));
  });
}

// The averages of batch norm come from a worker that still trains, even if rank 0 does not.
TEST(DdpJoin, TakesBuffersFromAWorkerThatTrains) {
  run_workers(2, [](Communicator& comm) {
    torch::nn::BatchNorm1d norm(3);
    torch::optim::SGD sgd(norm->parameters(), 0.1);
    const auto strategy = make_strategy("ddp", comm, {.uneven = true});
    strategy->adopt(*norm, sgd);

    for (int step = 0; step < 3 * comm.rank(); ++step) {
      strategy->accumulate(
          [](torch::nn::Module& any, const Batch& batch) {
            return Loss(
                dynamic_cast<torch::nn::BatchNorm1dImpl&>(any).forward(batch.input).pow(2).mean());
          },
          {torch::ones({4, 3}) * (step + 1), torch::zeros({4})},
          {});
      strategy->step();
    }
    const int last = strategy->join();

    EXPECT_EQ(last, 1);
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 3);
    EXPECT_NEAR(norm->running_mean[0].item<double>(), (0.1 * 0.9 + 0.2) * 0.9 + 0.3, 1e-6);
  });
}

TEST(DdpJoin, NeedsTheOptionForUnevenInputs) {
  run_workers(2, [](Communicator& comm) {
    Spared model;
    torch::optim::SGD sgd(model.parameters(), rule());
    const auto strategy = make_strategy("ddp", comm);
    strategy->adopt(model, sgd);
    EXPECT_THAT([&] { strategy->join(); },
                ThrowsMessage<Error>("cannot join: this strategy does not allow uneven inputs\n"
                                     "  requested: uneven = false  (StrategyOptions)\n"
                                     "  try:       StrategyOptions{.uneven = true}"));
  });
}

TEST(DdpJoin, RefusesAStaticGraph) {
  comm::Solo solo;
  EXPECT_THAT(
      [&] { make_strategy("ddp", solo, {.static_graph = true, .uneven = true}); },
      ThrowsMessage<Error>(
          "--static-graph does not support uneven inputs\n"
          "  requested: static_graph and uneven  (StrategyOptions)\n"
          "  try:       drop --static-graph: a worker without batches has a different graph"));
}

}  // namespace
}  // namespace lockstep
