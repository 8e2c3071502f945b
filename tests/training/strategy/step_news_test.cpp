// SPDX-License-Identifier: Apache-2.0
// Results of a step besides its update: the norm of the gradient and the waiting time of a worker.
#include <chrono>
#include <gmock/gmock.h>
#include <thread>

#include "support/run_workers.h"
#include "support/tally.h"
#include "training/comm/call_record.h"
#include "training/comm/solo.h"
#include "training/strategy/trained.h"

namespace lockstep {
namespace {

struct Way {
  std::string strategy;
  StrategyOptions options = {};
};

std::vector<Way> all_ways() {
  std::vector<Way> ways = {{.strategy = "ddp"},
                           {.strategy = "ddp", .options = {.overlap = false}},
                           {.strategy = "horovod"},
                           {.strategy = "mirrored"}};
  for (const int stage : {0, 1, 2, 3}) {
    ways.push_back({.strategy = "deepspeed", .options = {.zero = {.stage = stage}}});
  }
  return ways;
}

std::string name_of(const Way& way) {
  return way.strategy + " " + std::to_string(way.options.zero.stage);
}

// The norms of three steps in which rank 1 takes `pause` longer than the others.
std::vector<double> norms_of(Communicator& comm,
                             const Way& way,
                             const StepOptions& step,
                             std::chrono::milliseconds pause = {}) {
  Spared model;
  const auto optimizer = make_optimizer(model.parameters(), {.name = "sgd", .lr = 0.05});
  const auto strategy = make_strategy(way.strategy, comm, way.options);
  strategy->adopt(model, *optimizer);
  comm.set_phase("forward and backward");
  std::vector<double> norms;
  for (int number = 0; number < 3; ++number) {
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(pause);
    }
    strategy->accumulate(
        loss_of<Spared>(CrossEntropy()), sample(4, sample_number(number, comm.rank(), 0)), {});
    norms.push_back(strategy->step(step).norm);
  }
  strategy->leave();
  return norms;
}

std::vector<double> norms_alone(int workers) {
  comm::Solo solo;
  Spared model;
  const auto optimizer = make_optimizer(model.parameters(), {.name = "sgd", .lr = 0.05});
  const auto strategy = make_strategy("single", solo);
  strategy->adopt(model, *optimizer);
  std::vector<double> norms;
  for (int number = 0; number < 3; ++number) {
    for (int rank = 0; rank < workers; ++rank) {
      strategy->accumulate(loss_of<Spared>(CrossEntropy()),
                           sample(4, sample_number(number, rank, 0)),
                           {.weight = 1.0 / workers, .last = rank + 1 == workers});
    }
    norms.push_back(strategy->step({.wants_norm = true}).norm);
  }
  return norms;
}

TEST(StepNews, TheNormIsThatOfTheWholeGradientUnderEveryStrategy) {
  const std::vector<double> alone = norms_alone(3);
  for (const Way& way : all_ways()) {
    run_workers(3, [&](Communicator& comm) {
      const std::vector<double> norms = norms_of(comm, way, {.wants_norm = true});
      for (size_t i = 0; i < norms.size(); ++i) {
        EXPECT_GT(norms[i], 0.01);
        EXPECT_NEAR(norms[i], alone[i], 1e-9) << name_of(way);
      }
    });
  }
}

TEST(StepNews, OmitsTheNormUnlessRequested) {
  for (const Way& way : all_ways()) {
    run_workers(2, [&](Communicator& comm) {
      EXPECT_THAT(norms_of(comm, way, {}), ::testing::Each(0)) << name_of(way);
    });
  }
}

// Three times 60 ms. A busy machine may delay either rank further.
void expect_the_fast_one_to_wait(Communicator& comm, const Way& way) {
  norms_of(comm, way, {}, std::chrono::milliseconds(60));
  const double waited =
      std::chrono::duration<double>(CommunicatorAccess::calls(comm).waited()).count();
  const torch::Tensor all = comm.all_gather(torch::full({1}, waited, torch::kFloat64));
  EXPECT_GT(all[0].item<double>(), 0.12) << name_of(way);
  EXPECT_GT(all[0].item<double>(), all[1].item<double>() + 0.05) << name_of(way);
}

TEST(StepNews, WhoIsFastWaitsForWhoIsSlow) {
  for (const Way& way : all_ways()) {
    run_workers(2, [&](Communicator& comm) { expect_the_fast_one_to_wait(comm, way); });
  }
}

TEST(StepNews, WaitingForAThreadOfTheExchangeCountsToo) {
  for (const Way& way : all_ways()) {
    run_workers(2, [&](Communicator& comm) {
      Tally concurrent(comm, /*overlaps=*/true);
      expect_the_fast_one_to_wait(concurrent, way);
    });
  }
}

}  // namespace
}  // namespace lockstep
