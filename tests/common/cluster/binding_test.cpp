// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/binding.h"

#include <gmock/gmock.h>
#include <set>

#include "common/os/environment.h"
#include "common/os/processors.h"

namespace lockstep::cluster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Shares = std::vector<std::vector<int>>;
using PreferredNodes = std::vector<std::optional<int>>;

// Numbered as in Linux on most machines: first one hyperthread of every core, then the others.
std::vector<Cpu> machine(int sockets, int cores, int threads) {
  std::vector<Cpu> cpus;
  for (int number = 0; number < sockets * cores * threads; ++number) {
    const int core = number % (sockets * cores);
    cpus.push_back({.number = number, .core = core, .numa_node = core / cores});
  }
  return cpus;
}

PreferredNodes none(size_t workers) {
  return PreferredNodes(workers);
}

TEST(SplitCpus, KeepsHyperthreadsTogetherAndSharesContiguous) {
  const std::vector<Cpu> cpus = machine(2, 4, 2);
  const std::vector<std::pair<size_t, Shares>> table = {
      {0, {}},
      {1, {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}},
      {2, {{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}}},
      {4, {{0, 1, 8, 9}, {2, 3, 10, 11}, {4, 5, 12, 13}, {6, 7, 14, 15}}},
      {8, {{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}},
  };
  for (const auto& [workers, shares] : table) {
    EXPECT_EQ(split_cpus(cpus, none(workers)), shares) << workers;
  }
}

TEST(SplitCpus, DealsOutWhatDoesNotDivide) {
  EXPECT_EQ(split_cpus(machine(1, 8, 1), none(3)), (Shares{{0, 1, 2}, {3, 4, 5}, {6, 7}}));
  EXPECT_EQ(split_cpus(machine(1, 3, 2), none(2)), (Shares{{0, 1, 3, 4}, {2, 5}}));
}

TEST(SplitCpus, SplitsCoresOnlyWhenThereAreFewerThanWorkers) {
  EXPECT_EQ(split_cpus(machine(1, 2, 2), none(4)), (Shares{{0}, {2}, {1}, {3}}));
  EXPECT_EQ(split_cpus(machine(1, 2, 2), none(3)), (Shares{{0, 2}, {1}, {3}}));
}

TEST(SplitCpus, GivesAllToAllWhenThereAreTooFew) {
  EXPECT_EQ(split_cpus(machine(1, 2, 1), none(3)), (Shares{{0, 1}, {0, 1}, {0, 1}}));
  EXPECT_EQ(split_cpus({}, none(2)), (Shares{{}, {}}));
}

TEST(SplitCpus, UsesOnlyWhatWasGranted) {
  // Core 1 of each socket, and one hyperthread of core 2.
  const std::vector<Cpu> granted = {{.number = 13, .core = 5, .numa_node = 1},
                                    {.number = 1, .core = 1, .numa_node = 0},
                                    {.number = 2, .core = 2, .numa_node = 0},
                                    {.number = 9, .core = 1, .numa_node = 0},
                                    {.number = 5, .core = 5, .numa_node = 1}};

  EXPECT_EQ(split_cpus(granted, none(3)), (Shares{{1, 9}, {2}, {5, 13}}));
}

TEST(SplitCpus, GivesWorkersTheNodeOfTheirGpu) {
  const std::vector<Cpu> cpus = machine(2, 4, 1);
  const std::vector<std::pair<PreferredNodes, Shares>> table = {
      {{1, 0}, {{4, 5, 6, 7}, {0, 1, 2, 3}}},
      {{1, 1, 0, 0}, {{4, 5}, {6, 7}, {0, 1}, {2, 3}}},
      {{0, 1, 0, 1}, {{0, 1}, {4, 5}, {2, 3}, {6, 7}}},
      {{1, std::nullopt}, {{4, 5, 6, 7}, {0, 1, 2, 3}}},
      {{std::nullopt, 0}, {{4, 5, 6, 7}, {0, 1, 2, 3}}},
      {{1}, {{0, 1, 2, 3, 4, 5, 6, 7}}},
  };
  for (const auto& [preferred, shares] : table) {
    EXPECT_EQ(split_cpus(cpus, preferred), shares) << ::testing::PrintToString(preferred);
  }
}

TEST(SplitCpus, KeepsSharesEqualWhenOneNodeIsRequestedTooOften) {
  EXPECT_EQ(split_cpus(machine(2, 4, 1), {0, 0}), (Shares{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(split_cpus(machine(2, 4, 1), {1, 1, 1, 1}), (Shares{{4, 5}, {6, 7}, {0, 1}, {2, 3}}));
}

TEST(SplitCpus, LeavesACoreIdleRatherThanPushAWorkerFromItsNode) {
  EXPECT_EQ(split_cpus(machine(2, 4, 1), {0, 0, 1}), (Shares{{0, 1}, {2, 3}, {4, 5}}));
}

TEST(SplitCpus, TakesTheNearestNodeWhenTheRequestedOneIsFull) {
  // Eight nodes of two cores, with GPUs at every second one.
  EXPECT_EQ(split_cpus(machine(8, 2, 1), {1, 1, 3, 3, 5, 5, 7, 7}),
            (Shares{{2, 3}, {0, 1}, {6, 7}, {4, 5}, {10, 11}, {8, 9}, {14, 15}, {12, 13}}));
}

TEST(SplitCpus, IgnoresANodeThatWasNotGranted) {
  EXPECT_EQ(split_cpus(machine(1, 4, 1), {1, 1}), (Shares{{0, 1}, {2, 3}}));
}

TEST(SplitCpus, IsDisjointAndEqualWhateverTheMachine) {
  for (const int sockets : {1, 2, 4}) {
    for (const int cores : {1, 3, 8}) {
      for (const int threads : {1, 2}) {
        for (int workers = 1; workers <= sockets * cores; ++workers) {
          SCOPED_TRACE(::testing::PrintToString(std::vector{sockets, cores, threads, workers}));
          PreferredNodes preferred;
          for (int worker = 0; worker < workers; ++worker) {
            preferred.push_back(worker % 3 == 2 ? std::nullopt : std::optional(worker % sockets));
          }
          const Shares shares = split_cpus(machine(sockets, cores, threads), preferred);
          std::set<int> seen;
          size_t sum = 0;
          for (const std::vector<int>& share : shares) {
            const size_t minimum = static_cast<size_t>(sockets * cores / workers * threads);
            EXPECT_GE(share.size(), minimum);
            EXPECT_LE(share.size(), minimum + static_cast<size_t>(threads));
            seen.insert(share.begin(), share.end());
            sum += share.size();
          }
          EXPECT_THAT(shares, SizeIs(static_cast<size_t>(workers)));
          EXPECT_EQ(seen.size(), sum);
        }
      }
    }
  }
}

TEST(ShareCores, DealsOutThisMachine) {
  const std::vector<int> usable = os::usable_processor_numbers();

  EXPECT_THAT(share_cores(1, {}), ElementsAre(usable));
  EXPECT_THAT(share_cores(1, {0}), ElementsAre(usable));
  EXPECT_THAT(share_cores(2, {-1, 1000}), SizeIs(2));
  EXPECT_THAT(share_cores(0, {}), IsEmpty());
  EXPECT_THAT(share_cores(static_cast<int>(usable.size()) + 1, {}), Each(usable));
}

TEST(LocateCpus, KnowsEveryProcessorOfThisMachine) {
  const std::vector<int> usable = os::usable_processor_numbers();
  const std::vector<Cpu> cpus = locate_cpus(usable);

  ASSERT_THAT(cpus, SizeIs(usable.size()));
  for (size_t i = 0; i < cpus.size(); ++i) {
    EXPECT_EQ(cpus[i].number, usable[i]);
  }
}

// hwloc can load a synthetic topology.
class LocateCpusElsewhere : public ::testing::Test {
 protected:
  LocateCpusElsewhere() {
    become("package:2 [numa] core:4 pu:2");
    os::set_variable("HWLOC_THISSYSTEM", "0");
  }
  ~LocateCpusElsewhere() override {
    os::unset_variable("HWLOC_SYNTHETIC");
    os::unset_variable("HWLOC_THISSYSTEM");
  }
  static void become(const std::string& machine) { os::set_variable("HWLOC_SYNTHETIC", machine); }
};

TEST_F(LocateCpusElsewhere, FindsCoresAndNodes) {
  if (locate_cpus({0, 1}) == std::vector<Cpu>{{0, 0, 0}, {1, 1, 0}}) {
    GTEST_SKIP() << "built without hwloc";
  }

  EXPECT_THAT(
      locate_cpus({15, 0, 1, 2, 7, 8}),
      ElementsAre(
          Cpu{15, 7, 1}, Cpu{0, 0, 0}, Cpu{1, 0, 0}, Cpu{2, 1, 0}, Cpu{7, 3, 0}, Cpu{8, 4, 1}));
}

TEST_F(LocateCpusElsewhere, TakesUnknownProcessorsForCoresOfTheirOwn) {
  const std::vector<Cpu> cpus = locate_cpus({0, 100, 101});

  EXPECT_NE(cpus[1].core, cpus[2].core);
  EXPECT_NE(cpus[0].core, cpus[1].core);
}

}  // namespace
}  // namespace lockstep::cluster
