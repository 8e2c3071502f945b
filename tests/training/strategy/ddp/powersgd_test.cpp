// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/ddp/powersgd.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "support/run_workers.h"
#include "support/tally.h"
#include "training/comm/solo.h"

namespace lockstep::strategy {
namespace {

using ::testing::ThrowsMessage;

torch::Generator seeded(uint64_t seed) {
  return torch::make_generator<torch::CPUGeneratorImpl>(seed);
}

torch::Tensor random(std::vector<int64_t> shape, uint64_t seed) {
  torch::Generator generator = seeded(seed);
  return torch::randn(shape, generator, torch::dtype(torch::kFloat64));
}

double relative(const torch::Tensor& found, const torch::Tensor& wanted) {
  return ((found - wanted).norm() / wanted.norm()).item<double>();
}

// A matrix that is compressed, one that is too small, and a vector.
std::vector<torch::Tensor> parameters(torch::ScalarType type = torch::kFloat64) {
  return {torch::zeros({40, 60}, type), torch::zeros({3, 2}, type), torch::zeros({7}, type)};
}
constexpr int64_t kMatrix = 40 * 60;
constexpr int64_t kSmall = 3 * 2 + 7;

torch::Tensor average_of(Communicator& comm, const torch::Tensor& mine) {
  torch::Tensor sum = mine / comm.size();
  comm.all_reduce(sum);
  return sum;
}

TEST(PowerSgd, IsExactWhereGradientsHaveNoMoreDirectionsThanItsRank) {
  for (const int size : {1, 2, 3}) {
    run_workers(size, [](Communicator& comm) {
      const auto all = parameters();
      PowerSgd sgd(all, 2 * comm.size());
      for (uint64_t step = 0; step < 4; ++step) {
        const uint64_t seed = step * 10 + static_cast<uint64_t>(comm.rank());
        const torch::Tensor matrix = random({40, 2}, seed).mm(random({2, 60}, seed + 100));
        torch::Tensor flat = torch::cat({matrix.flatten(), random({kSmall}, seed)});
        const torch::Tensor wanted = average_of(comm, flat);

        sgd.average(comm, flat, all);

        EXPECT_LT(relative(flat, wanted), 1e-9);
        const torch::Tensor everyone = comm.all_gather(flat);
        EXPECT_TRUE(everyone.eq(everyone[0]).all().item<bool>());
      }
    });
  }
}

TEST(PowerSgd, SendsLaterWhatItLeavesOut) {
  run_workers(3, [](Communicator& comm) {
    const auto all = parameters();
    PowerSgd sgd(all, 2);
    const torch::Tensor mine = random({kMatrix + kSmall}, static_cast<uint64_t>(comm.rank()));
    const torch::Tensor wanted = average_of(comm, mine);
    torch::Tensor sum = torch::zeros_like(mine);
    const auto advance = [&](int steps) {
      for (int step = 0; step < steps; ++step) {
        torch::Tensor flat = mine.clone();
        sgd.average(comm, flat, all);
        sum += flat;
      }
    };

    advance(1);
    const double after_one = relative(sum, wanted);
    advance(199);
    const double after_many = relative(sum / 200, wanted);

    // Each step sends 2 of 40 directions; the total still follows the sum of the gradients.
    EXPECT_GT(after_one, 0.8);
    EXPECT_LT(after_many, 0.1);
  });
}

TEST(PowerSgd, SendsTwoThinMatricesAndTheSmallOnesWhole) {
  run_workers(2, [](Communicator& comm) {
    Tally tally(comm);
    const auto all = parameters();
    PowerSgd sgd(all, 3);
    torch::Tensor flat = random({kMatrix + kSmall}, 1);

    sgd.average(tally, flat, all);

    EXPECT_EQ(tally.take_calls(), 2);
    EXPECT_EQ(tally.take_bytes(), int64_t{8} * (3 * (40 + 60) + kSmall));
  });
}

TEST(PowerSgd, GivesTheVectorsAndSmallMatricesAsTheyAre) {
  run_workers(2, [](Communicator& comm) {
    const auto all = parameters();
    PowerSgd sgd(all, 1);
    torch::Tensor flat = random({kMatrix + kSmall}, static_cast<uint64_t>(comm.rank()));
    const torch::Tensor wanted = average_of(comm, flat);

    sgd.average(comm, flat, all);

    EXPECT_TRUE(flat.narrow(0, kMatrix, kSmall).equal(wanted.narrow(0, kMatrix, kSmall)));
  });
}

TEST(PowerSgd, FindsAGradientAgainAfterStepsWithoutOne) {
  run_workers(2, [](Communicator& comm) {
    const auto all = parameters();
    PowerSgd sgd(all, 2);
    torch::Tensor none = torch::zeros({kMatrix + kSmall}, torch::kFloat64);
    const torch::Tensor matrix = random({40, 1}, 1).mm(random({1, 60}, 2));
    torch::Tensor flat = torch::cat({matrix.flatten(), torch::zeros({kSmall}, torch::kFloat64)});
    const torch::Tensor wanted = flat.clone();

    sgd.average(comm, none, all);
    sgd.average(comm, none, all);
    sgd.average(comm, flat, all);

    EXPECT_TRUE(none.eq(0).all().item<bool>());
    EXPECT_LT(relative(flat, wanted), 1e-9);
  });
}

TEST(PowerSgd, ForgetsAStepThatOverflowed) {
  run_workers(2, [](Communicator& comm) {
    const auto all = parameters();
    PowerSgd sgd(all, 2);
    torch::Tensor broken = random({kMatrix + kSmall}, 1);
    if (comm.rank() == 1) {
      broken[5] = std::numeric_limits<double>::infinity();
    }
    const torch::Tensor matrix = random({40, 2}, 3).mm(random({2, 60}, 4));
    torch::Tensor flat = torch::cat({matrix.flatten(), random({kSmall}, 5)});
    const torch::Tensor wanted = flat.clone();

    sgd.average(comm, broken, all);
    sgd.average(comm, flat, all);

    EXPECT_FALSE(broken.isfinite().all().item<bool>());
    EXPECT_LT(relative(flat, wanted), 1e-9);
  });
}

TEST(PowerSgd, KeepsItsMemoryWhenBucketsAreCutAnew) {
  run_workers(2, [](Communicator& comm) {
    const auto all = parameters();
    PowerSgd together(all, 1);
    PowerSgd apart(all, 1);
    for (uint64_t step = 0; step < 3; ++step) {
      torch::Tensor flat =
          random({kMatrix + kSmall}, step * 2 + static_cast<uint64_t>(comm.rank()));
      torch::Tensor matrix = flat.narrow(0, 0, kMatrix).clone();
      torch::Tensor rest = flat.narrow(0, kMatrix, kSmall).clone();

      together.average(comm, flat, all);
      if (step == 0) {
        torch::Tensor turned = torch::cat({rest.narrow(0, 6, 7), rest.narrow(0, 0, 6), matrix});
        apart.average(comm, turned, {all[2], all[1], all[0]});
        matrix = turned.narrow(0, kSmall, kMatrix);
      } else {
        apart.average(comm, rest, {all[1], all[2]});
        apart.average(comm, matrix, {all[0]});
      }

      EXPECT_TRUE(flat.narrow(0, 0, kMatrix).equal(matrix));
    }
  });
}

TEST(PowerSgd, TakesGradientsOfHalfPrecision) {
  run_workers(2, [](Communicator& comm) {
    const auto all = parameters(torch::kBFloat16);
    PowerSgd sgd(all, 2);
    const torch::Tensor matrix = random({40, 1}, 1).mm(random({1, 60}, 2));
    torch::Tensor flat = torch::cat({matrix.flatten(), random({kSmall}, 5)}).to(torch::kBFloat16);
    const torch::Tensor wanted = flat.to(torch::kFloat64);

    sgd.average(comm, flat, all);

    EXPECT_LT(relative(flat.to(torch::kFloat64), wanted), 1e-2);
  });
}

TEST(PowerSgd, RefusesARankBelowOne) {
  EXPECT_THAT([] { PowerSgd(parameters(), 0); },
              ThrowsMessage<Error>("--powersgd-rank must be at least 1, not 0\n"
                                   "  requested: --powersgd-rank 0  (command line)\n"
                                   "  try:       --powersgd-rank 1"));
}

}  // namespace
}  // namespace lockstep::strategy
