// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/mirrored.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "support/run_workers.h"
#include "training/comm/solo.h"
#include "training/strategy/same_after_join.h"
#include "training/strategy/shared/gradient_buckets.h"
#include "training/strategy/trained.h"

namespace lockstep {
namespace {

using ::testing::ThrowsMessage;

TEST(Mirrored, SumsWhatOneProcessComputes) {
  for (const int workers : {1, 2, 3, 4}) {
    for (const int accumulate : {1, 2}) {
      Training training{.strategy = "mirrored", .accumulate = accumulate, .clip = 0.2};
      // In step 1 no worker uses the spare layer. In step 2 only the last worker does, and only in
      // its first micro-batch.
      training.uses_spare = [workers](int step, int rank, int part) {
        return step != 1 && (step != 2 || (rank == workers - 1 && part == 0));
      };
      comm::Solo solo;
      const torch::Tensor wanted = train_alone(solo, workers, training);
      run_workers(workers, [&](Communicator& comm) {
        const torch::Tensor found = train(comm, {}, training);
        EXPECT_LE(largest_difference(found, wanted), 1e-12)
            << workers << " workers, " << accumulate << " shares";
        const torch::Tensor all = comm.all_gather(found);
        EXPECT_TRUE(all.eq(all[0]).all().item<bool>());
      });
    }
  }
}

TEST(Mirrored, LeavesAloneAParameterThatNoWorkerUses) {
  run_workers(3, [](Communicator& comm) {
    Training training{.strategy = "mirrored"};
    training.uses_spare = [](int, int, int) {
      return false;
    };
    const Spared fresh;
    const int64_t spare = 12 * 3 + 3;

    const torch::Tensor found = train(comm, {}, training);

    // Weight decay would change it if it had a zero gradient.
    EXPECT_TRUE(found.narrow(0, found.numel() - spare, spare)
                    .equal(flat_state(fresh).narrow(0, found.numel() - spare, spare)));
  });
}

TEST(Mirrored, TakesTheVariablesOfTheFirstReplica) {
  run_workers(3, [](Communicator& comm) {
    Spared model;
    {
      torch::NoGradGuard no_grad;
      model.first->weight.add_(comm.rank());
    }
    torch::optim::SGD sgd(model.parameters(), 0.1);
    make_strategy("mirrored", comm)->adopt(model, sgd);
    EXPECT_TRUE(flat_state(model).equal(flat_state(Spared())));
  });
}

TEST(Mirrored, BucketsOfAnySizeGiveTheSame) {
  run_workers(2, [](Communicator& comm) {
    const Training training{.strategy = "mirrored"};
    const torch::Tensor one = train(comm, {}, training);
    EXPECT_TRUE(train(comm, {.bucket_bytes = 1000}, training).equal(one));
  });
}

TEST(GradientBuckets, HoldManyParametersOfOneTypeUpToTheirSize) {
  std::vector<torch::Tensor> parameters;
  for (int i = 0; i < 10; ++i) {
    parameters.push_back(torch::zeros({100}, i % 2 == 0 ? torch::kFloat32 : torch::kFloat64));
  }
  const auto count = [&](int64_t bytes) {
    return strategy::GradientBuckets(parameters, bytes, Compression::None).count();
  };

  EXPECT_EQ(count(1 << 20), 2U);
  EXPECT_EQ(count(800), 3U + 5U);
  EXPECT_EQ(count(1), 10U);
}

TEST(Mirrored, CompressesWithinTheRoundingOfTheShortType) {
  for (const auto& [compression, bound] :
       {std::pair(Compression::Fp16, 1e-2), std::pair(Compression::Bf16, 5e-2)}) {
    run_workers(2, [&, how = compression, maximum = bound](Communicator& comm) {
      const Training training{.strategy = "mirrored"};
      const torch::Tensor whole = train(comm, {}, training);
      const torch::Tensor rounded = train(comm, {.compression = how}, training);

      EXPECT_LE(largest_difference(rounded, whole), maximum);
      EXPECT_GT(largest_difference(rounded, whole), 0);
      const torch::Tensor all = comm.all_gather(rounded);
      EXPECT_TRUE(all[0].equal(all[1]));
    });
  }
}

TEST(Mirrored, RefusesPowerSgd) {
  comm::Solo solo;
  EXPECT_THAT([&] { make_strategy("mirrored", solo, {.compression = Compression::PowerSgd}); },
              ThrowsMessage<Error>("-s mirrored does not support PowerSGD\n"
                                   "  requested: --compression powersgd  (command line)\n"
                                   "  available: none, fp16, bf16\n"
                                   "  try:       --compression bf16, or -s ddp"));
}

TEST(Mirrored, GoesOnUntilAllHaveJoined) {
  expect_same_after_join({.strategy = "mirrored"});
}

TEST(Mirrored, JoinsOnlyWhereItWasAskedFor) {
  comm::Solo solo;
  Spared model;
  torch::optim::SGD sgd(model.parameters(), 0.1);
  const auto strategy = make_strategy("mirrored", solo);
  strategy->adopt(model, sgd);
  EXPECT_THAT([&] { strategy->join(); },
              ThrowsMessage<Error>("cannot join: this strategy does not allow uneven inputs\n"
                                   "  requested: uneven = false  (StrategyOptions)\n"
                                   "  try:       StrategyOptions{.uneven = true}"));
}

}  // namespace
}  // namespace lockstep
