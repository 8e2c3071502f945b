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

// Small buckets, so that the models of these tests have several.
StrategyOptions small_buckets() {
  return {.first_bucket_bytes = 1 << 10, .bucket_bytes = 4 << 10};
}

void expect_identical(Communicator& comm, const torch::Tensor& parameters) {
  const torch::Tensor everyone = comm.all_gather(parameters);
  EXPECT_TRUE(everyone.eq(everyone[0]).all().item<bool>());
}

TEST(DdpExchange, GivesTheSameToTheBitDuringAndAfterBackward) {
  for (const int size : {2, 3, 4}) {
    for (const int accumulate : {1, 2}) {
      run_workers(size, [&](Communicator& comm) {
        const Training training{.accumulate = accumulate};
        StrategyOptions options = small_buckets();
        const torch::Tensor during = train(comm, options, training);
        options.overlap = false;
        const torch::Tensor after = train(comm, options, training);
        EXPECT_TRUE(during.equal(after));
        comm::Solo solo;
        EXPECT_LT(largest_difference(after, train_alone(solo, size, training)), 1e-12);
        expect_identical(comm, after);
      });
    }
  }
}

TEST(DdpExchange, GivesTheSameToTheBitOnAThreadOfItsOwn) {
  for (const Compression compression :
       {Compression::None, Compression::Fp16, Compression::Bf16, Compression::PowerSgd}) {
    run_workers(3, [&](Communicator& comm) {
      StrategyOptions options = small_buckets();
      options.compression = compression;
      options.powersgd_start = 2;
      const torch::Tensor here = train(comm, options);
      Tally concurrent(comm, /*overlaps=*/true);
      const torch::Tensor there = train(concurrent, options);
      options.overlap = false;
      const torch::Tensor after = train(concurrent, options);
      EXPECT_TRUE(here.equal(there)) << name_of(compression);
      EXPECT_TRUE(here.equal(after)) << name_of(compression);
      expect_identical(comm, here);
    });
  }
}

TEST(DdpExchange, StaysNearTheWholeGradientsInHalfPrecision) {
  for (const int size : {2, 4}) {
    run_workers(size, [](Communicator& comm) {
      const torch::Tensor whole = train(comm, {});
      const torch::Tensor half = train(comm, {.compression = Compression::Fp16});
      const torch::Tensor brain = train(comm, {.compression = Compression::Bf16});
      // 11 and 8 bits of mantissa.
      EXPECT_GT(largest_difference(half, whole), 0);
      EXPECT_LT(largest_difference(half, whole), 1e-3);
      EXPECT_GT(largest_difference(brain, whole), 0);
      EXPECT_LT(largest_difference(brain, whole), 1e-2);
      expect_identical(comm, half);
      expect_identical(comm, brain);
    });
  }
}

// Four times 60000 exceeds the range of half precision; their average does not.
TEST(DdpExchange, DoesNotOverflowHalfPrecisionWhereNoGradientDoes) {
  run_workers(4, [](Communicator& comm) {
    torch::nn::Linear model(1, 1);
    torch::optim::SGD sgd(model->parameters(), 1.0);
    const auto strategy = make_strategy("ddp", comm, {.compression = Compression::Fp16});
    strategy->adopt(*model, sgd);
    const torch::Tensor before = model->bias.detach().clone();

    strategy->accumulate(
        [](torch::nn::Module& any, const Batch& batch) {
          return Loss(60000 * dynamic_cast<torch::nn::LinearImpl&>(any).forward(batch.input).sum());
        },
        {torch::ones({1, 1}), torch::zeros({1})},
        {});
    strategy->step();

    EXPECT_NEAR((before - model->bias.detach()).item<double>(), 60000, 40);
  });
}

TEST(DdpExchange, GivesTheWholeGradientsByPowerSgdOfEnoughRank) {
  run_workers(2, [](Communicator& comm) {
    // The gradient of 2 x 2 samples has at most four directions.
    const Training training{.share = 2};
    StrategyOptions options = small_buckets();
    const torch::Tensor whole = train(comm, options, training);
    options.compression = Compression::PowerSgd;
    options.powersgd_rank = 4;
    options.powersgd_start = 0;
    const torch::Tensor low = train(comm, options, training);
    options.powersgd_rank = 1;
    const torch::Tensor lowest = train(comm, options, training);

    EXPECT_LT(largest_difference(low, whole), 1e-9);
    EXPECT_GT(largest_difference(lowest, whole), 1e-4);
    expect_identical(comm, lowest);
  });
}

TEST(DdpExchange, SendsWholeGradientsBeforePowerSgdBegins) {
  run_workers(2, [](Communicator& comm) {
    const Training training{.steps = 3};
    StrategyOptions options = small_buckets();
    const torch::Tensor whole = train(comm, options, training);
    options.compression = Compression::PowerSgd;
    options.powersgd_start = 3;
    EXPECT_TRUE(train(comm, options, training).equal(whole));
    options.powersgd_start = 2;
    EXPECT_FALSE(train(comm, options, training).equal(whole));
  });
}

TEST(DdpExchange, SendsFewerBytesByPowerSgd) {
  run_workers(2, [](Communicator& comm) {
    Tally tally(comm);
    train(tally, {}, {.steps = 1});
    const int64_t whole = tally.take_bytes();
    train(tally,
          {.compression = Compression::PowerSgd, .powersgd_rank = 1, .powersgd_start = 0},
          {.steps = 1});
    const int64_t low = tally.take_bytes();

    // 12x40, 40x30, 30x3 and 12x3, each with its bias.
    EXPECT_EQ(whole, 8 * (480 + 40 + 1200 + 30 + 90 + 3 + 36 + 3));
    EXPECT_EQ(low, 8 * (52 + 40 + 70 + 30 + 33 + 3 + 15 + 3));
  });
}

TEST(DdpExchange, FollowsAStaticGraph) {
  for (const int accumulate : {1, 2}) {
    for (const bool overlap : {true, false}) {
      for (const Compression compression : {Compression::None, Compression::Fp16}) {
        run_workers(3, [&](Communicator& comm) {
          const Training training{.accumulate = accumulate};
          StrategyOptions options = small_buckets();
          options.overlap = overlap;
          options.compression = compression;
          const torch::Tensor dynamic = train(comm, options, training);
          options.static_graph = true;
          const torch::Tensor fixed = train(comm, options, training);
          // The first step has other buckets and may round differently.
          EXPECT_LT(largest_difference(fixed, dynamic),
                    compression == Compression::None ? 1e-13 : 1e-3);
          expect_identical(comm, fixed);
        });
      }
    }
  }
}

TEST(DdpExchange, LeavesUnusedParametersAloneUnderAStaticGraph) {
  run_workers(2, [](Communicator& comm) {
    comm::Solo solo;
    const Training unused{.uses_spare = [](int, int, int) {
      return false;
    }};
    const Training one{.uses_spare = [](int, int rank, int) {
      return rank == 1;
    }};
    for (const Training& training : {unused, one}) {
      const torch::Tensor found = train(comm, {.static_graph = true}, training);
      EXPECT_LT(largest_difference(found, train_alone(solo, 2, training)), 1e-13);
      expect_identical(comm, found);
    }
  });
}

TEST(DdpExchange, NamesWhatChangesUnderAStaticGraph) {
  for (const bool at_first : {true, false}) {
    run_workers(2, [at_first](Communicator& comm) {
      EXPECT_THAT(
          [&] {
            train(comm, {.static_graph = true}, {.uses_spare = [at_first](int step, int, int) {
                    return (step < 2) == at_first;
                  }});
          },
          ThrowsMessage<Error>(::testing::AllOf(
              ::testing::StartsWith(
                  "cannot finish the step: the graph differs from the first step\n"
                  "  requested: --static-graph  (command line)\n"
                  "  changed:   'spare."),
              ::testing::EndsWith(
                  "  try:       --find-unused-parameters instead of --static-graph"))));
    });
  }
}

TEST(DdpUnused, AreNamedInTheStepInWhichTheyAre) {
  run_workers(2, [](Communicator& comm) {
    int last = -1;
    EXPECT_THAT(
        [&] {
          train(comm, {}, {.uses_spare = [&last](int step, int, int) {
                  last = step;
                  return step < 2;
                }});
        },
        ThrowsMessage<Error>(
            fmt::format("cannot finish the step: 2 of 8 parameters were not used in the loss\n"
                        "  unused: 'spare.weight', 'spare.bias'  (rank {})\n"
                        "  try:    --find-unused-parameters, or requires_grad_(false) on these",
                        comm.rank())));
    EXPECT_EQ(last, 2);
  });
}

TEST(DdpUnused, AreLeftAloneAsInOneProcess) {
  comm::Solo solo;
  const auto check = [&solo](int size, const StrategyOptions& options, const Training& training) {
    const torch::Tensor wanted = train_alone(solo, size, training);
    run_workers(size, [&](Communicator& comm) {
      const torch::Tensor found = train(comm, options, training);
      EXPECT_LT(largest_difference(found, wanted), 1e-13);
      expect_identical(comm, found);
    });
  };
  for (const int size : {2, 3}) {
    for (const bool overlap : {true, false}) {
      StrategyOptions options = small_buckets();
      options.find_unused_parameters = true;
      options.overlap = overlap;
      // Used by all workers, in no step, in some steps, and then by one worker only.
      check(size, options, {.uses_spare = [](int, int, int) {
              return false;
            }});
      check(size, options, {.uses_spare = [](int step, int, int) {
              return step % 2 == 0;
            }});
      check(size, options, {.uses_spare = [](int step, int rank, int) {
              return step % 3 == rank;
            }});
      // Used only in the first micro-batch of a step, on one worker.
      check(size, options, {.accumulate = 2, .uses_spare = [](int, int rank, int part) {
                              return rank == 1 && part == 0;
                            }});
    }
  }
}

TEST(DdpUnused, DoNotMatterIfAnEarlierShareUsedThem) {
  comm::Solo solo;
  const Training training{.accumulate = 2, .uses_spare = [](int, int, int part) {
                            return part == 0;
                          }};
  const torch::Tensor wanted = train_alone(solo, 2, training);
  run_workers(2, [&](Communicator& comm) {
    EXPECT_LT(largest_difference(train(comm, {}, training), wanted), 1e-13);
  });
}

}  // namespace
}  // namespace lockstep
