// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

#include "support/run_workers.h"
#include "training/comm/solo.h"
#include "training/strategy/trained.h"

namespace lockstep {

struct JoinCase {
  std::string strategy;
  StrategyOptions options = {};
  StepOptions step = {};
  bool has_whole_state = true;  // each worker has the optimizer state of all parameters
};

// Trains on three workers, of which worker r has 2 + r batches. Expects the parameters of one
// process that trains on the same batches, in which workers without batches contribute nothing.
inline void expect_same_after_join(JoinCase each) {
  each.options.uneven = true;
  const int workers = 3;
  comm::Solo solo;
  Spared alone;
  torch::optim::SGD alone_sgd(alone.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto single = make_strategy("single", solo);
  single->adopt(alone, alone_sgd);
  for (int step = 0; step < 1 + workers; ++step) {
    for (int rank = std::max(0, step - 1); rank < workers; ++rank) {
      single->accumulate(loss_of<Spared>(CrossEntropy()),
                         sample(4, sample_number(step, rank, 0)),
                         {.weight = 1.0 / workers, .last = rank + 1 == workers});
    }
    single->step(each.step);
  }

  run_workers(workers, [&](Communicator& comm) {
    Spared model;
    torch::optim::SGD sgd(model.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    const auto strategy = make_strategy(each.strategy, comm, each.options);
    strategy->adopt(model, sgd);
    for (int step = 0; step < 2 + comm.rank(); ++step) {
      strategy->accumulate(
          loss_of<Spared>(CrossEntropy()), sample(4, sample_number(step, comm.rank(), 0)), {});
      strategy->step(each.step);
    }

    EXPECT_EQ(strategy->join(), workers - 1);
    EXPECT_LE(largest_difference(flat_state(model), flat_state(alone)), 1e-12);
    if (each.has_whole_state) {
      EXPECT_EQ(sgd.state().size(), alone_sgd.state().size());
    }
  });
}

}  // namespace lockstep
