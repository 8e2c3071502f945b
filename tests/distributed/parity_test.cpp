// SPDX-License-Identifier: Apache-2.0
//
// Tests the central guarantee: training under a strategy equals training in one process. Ranks are
// threads here; processes_test.cpp tests the same over every transport.
#include <gmock/gmock.h>

#include "distributed/drift.h"
#include "support/run_workers.h"

namespace lockstep {
namespace {

class Parity : public ::testing::TestWithParam<std::tuple<std::string, int, int>> {};

TEST_P(Parity, HoldsAgainstOneProcessOnTheSameGlobalBatch) {
  const auto& [strategy, workers, accumulate] = GetParam();
  run_workers(workers, [&, name = strategy, parts = accumulate](Communicator& comm) {
    const Drift exact =
        measure_drift(comm, {.type = torch::kFloat64, .accumulate = parts, .strategy = name});
    const Drift single =
        measure_drift(comm, {.type = torch::kFloat32, .accumulate = parts, .strategy = name});

    EXPECT_LE(exact.relative, 1e-10);
    EXPECT_LE(single.relative, 1e-5);
    EXPECT_TRUE(exact.identical);
    EXPECT_TRUE(single.identical);
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies,
                         Parity,
                         ::testing::Combine(::testing::Values("ddp", "horovod", "mirrored"),
                                            ::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(1, 2)),
                         [](const auto& each) {
                           return std::get<0>(each.param) + "On" +
                                  std::to_string(std::get<1>(each.param)) + "WorkersIn" +
                                  std::to_string(std::get<2>(each.param)) + "MicroBatches";
                         });

TEST(UnevenParity, HoldsWhenTheBatchDoesNotDivideEvenly) {
  run_workers(3, [](Communicator& comm) {
    const Drift drift = measure_drift(comm, {.type = torch::kFloat64, .global_batch = 20});
    EXPECT_LE(drift.relative, 1e-10);
  });
}

}  // namespace
}  // namespace lockstep
