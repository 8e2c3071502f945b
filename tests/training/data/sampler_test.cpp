// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sampler.h"

#include <algorithm>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <numeric>
#include <set>
#include <vector>

#include "training/data/message_of.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

using Indices = std::vector<int64_t>;
using Visits = std::vector<int>;

const SamplerOptions kHundred = {.dataset_size = 100,
                                 .global_batch = 24,
                                 .rank = 0,
                                 .world_size = 1,
                                 .tail = Tail::Pad,
                                 .seed = 7};

// Step `step` of epoch `epoch` over all ranks, rank 0 first.
Indices global_batch(SamplerOptions options, int world_size, int64_t epoch, int64_t step) {
  Indices all;
  options.world_size = world_size;
  for (options.rank = 0; options.rank < world_size; ++options.rank) {
    DistributedSampler sampler(options);
    sampler.set_epoch(epoch);
    const Indices mine = sampler.indices(step);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return all;
}

Indices sorted(Indices indices) {
  std::ranges::sort(indices);
  return indices;
}

Indices up_to(int64_t size) {
  Indices indices(static_cast<size_t>(size));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

TEST(DistributedSampler, GivesTheSameGlobalBatchInTheSameOrderForEveryWorldSize) {
  for (const Tail tail : {Tail::Drop, Tail::Pad}) {
    for (const bool shuffle : {true, false}) {
      SamplerOptions options = kHundred;
      options.tail = tail;
      options.shuffle = shuffle;
      const int64_t steps = DistributedSampler(options).steps();
      for (int world_size = 1; world_size <= 8; ++world_size) {
        for (int64_t step = 0; step < steps; ++step) {
          SCOPED_TRACE(fmt::format("{} workers, step {}", world_size, step));
          EXPECT_EQ(global_batch(options, world_size, 3, step), global_batch(options, 1, 3, step));
        }
      }
    }
  }
}

TEST(DistributedSampler, ShowsEverySampleOnceInAnEpochThatDividesEvenly) {
  SamplerOptions options = kHundred;
  options.global_batch = 20;
  for (int world_size = 1; world_size <= 8; ++world_size) {
    Indices epoch;
    for (int64_t step = 0; step < 5; ++step) {
      const Indices batch = global_batch(options, world_size, 0, step);
      epoch.insert(epoch.end(), batch.begin(), batch.end());
    }

    EXPECT_EQ(sorted(epoch), up_to(100)) << world_size << " workers";
  }
}

TEST(DistributedSampler, GivesRanksPartsThatDifferByOneSampleAtMost) {
  SamplerOptions options = kHundred;
  options.world_size = 7;
  std::vector<size_t> sizes;
  for (options.rank = 0; options.rank < 7; ++options.rank) {
    sizes.push_back(DistributedSampler(options).indices(0).size());
  }

  EXPECT_THAT(sizes, ElementsAre(3, 3, 4, 3, 4, 3, 4));
}

TEST(DistributedSampler, DropsTheLastIncompleteBatch) {
  SamplerOptions options = kHundred;
  options.tail = Tail::Drop;
  const DistributedSampler sampler(options);
  std::set<int64_t> seen;
  for (int64_t step = 0; step < sampler.steps(); ++step) {
    const Indices batch = sampler.indices(step);
    seen.insert(batch.begin(), batch.end());
  }

  EXPECT_EQ(sampler.steps(), 4);
  EXPECT_EQ(seen.size(), 96U);
}

TEST(DistributedSampler, PadsTheLastBatchFromTheStartOfTheOrder) {
  const DistributedSampler sampler(kHundred);
  const Indices first = sampler.indices(0);
  const Indices last = sampler.indices(4);

  EXPECT_EQ(sampler.steps(), 5);
  EXPECT_EQ(sampler.global_size(4), 24);
  ASSERT_EQ(last.size(), 24U);
  EXPECT_EQ(Indices(last.begin() + 4, last.end()), Indices(first.begin(), first.begin() + 20));
}

TEST(DistributedSampler, PadsABatchLargerThanTheDataSetByGoingRoundAgain) {
  const DistributedSampler sampler({.dataset_size = 3,
                                    .global_batch = 8,
                                    .rank = 1,
                                    .world_size = 2,
                                    .tail = Tail::Pad,
                                    .shuffle = false});

  EXPECT_EQ(sampler.steps(), 1);
  EXPECT_THAT(sampler.indices(0), ElementsAre(1, 2, 0, 1));
}

TEST(DistributedSampler, ChangesTheOrderWithTheEpochAndTheSeedOnly) {
  DistributedSampler sampler(kHundred);
  const Indices epoch_0 = sampler.indices(0);
  sampler.set_epoch(1);
  const Indices epoch_1 = sampler.indices(0);
  sampler.set_epoch(0);
  SamplerOptions other_seed = kHundred;
  other_seed.seed = 8;

  EXPECT_THAT(epoch_1, Not(epoch_0));
  EXPECT_EQ(sampler.indices(0), epoch_0);
  EXPECT_THAT(DistributedSampler(other_seed).indices(0), Not(epoch_0));
}

TEST(DistributedSampler, KeepsTheOrderThatOlderRunsHad) {
  // A resumed run must use the same samples, so this order must never change.
  SamplerOptions options = kHundred;
  options.global_batch = 8;
  DistributedSampler sampler(options);
  sampler.set_epoch(2);

  EXPECT_THAT(sampler.indices(0), ElementsAre(48, 79, 36, 16, 47, 58, 34, 13));
}

TEST(DistributedSampler, LeavesCopiesInTheirEpoch) {
  DistributedSampler sampler(kHundred);
  const DistributedSampler copy = sampler;
  const Indices before = copy.indices(0);
  sampler.set_epoch(5);

  EXPECT_EQ(copy.indices(0), before);
  EXPECT_EQ(copy.epoch(), 0);
}

TEST(DistributedSampler, TakesSamplesInTheirOwnOrderWithoutShuffle) {
  SamplerOptions options = kHundred;
  options.shuffle = false;
  options.global_batch = 6;
  options.world_size = 2;
  options.rank = 1;
  DistributedSampler sampler(options);
  sampler.set_epoch(9);

  EXPECT_THAT(sampler.indices(1), ElementsAre(9, 10, 11));
}

struct Refusal {
  int64_t dataset_size;
  int64_t global_batch;
  int rank;
  int world_size;
  Tail tail;
  const char* message;
};

TEST(DistributedSampler, RefusesWhatCannotBeSharedOut) {
  const Refusal refusals[] = {
      {3,
       64,
       0,
       4,
       Tail::Pad,
       "64 cannot train: more workers than samples\n"
       "  workers: 4\n"
       "  samples: 3\n"
       "  try:     use at most 3 workers"},
      {100,
       3,
       0,
       4,
       Tail::Pad,
       "64 cannot train: the global batch is smaller than the world size\n"
       "  global batch: 3\n"
       "  workers:      4\n"
       "  try:          use a global batch of at least 4, or at most 3 workers"},
      {100,
       128,
       0,
       4,
       Tail::Drop,
       "64 cannot train: the data set does not fill one global batch\n"
       "  samples:      100\n"
       "  global batch: 128\n"
       "  try:          use a global batch of at most 100, or pad the last batch (--tail pad)"},
      {0,
       8,
       0,
       1,
       Tail::Pad,
       "64 cannot train: the data set has no samples\n"
       "  samples: 0"},
      {100,
       0,
       0,
       1,
       Tail::Pad,
       "64 cannot train with an empty batch\n"
       "  global batch: 0\n"
       "  try:          use a batch size of at least 1"},
      {100,
       -8,
       0,
       1,
       Tail::Drop,
       "64 cannot train with an empty batch\n"
       "  global batch: -8\n"
       "  try:          use a batch size of at least 1"},
      {100,
       8,
       4,
       4,
       Tail::Pad,
       "64 cannot distribute samples: invalid rank\n"
       "  rank:       4\n"
       "  world size: 4"},
      {100,
       8,
       0,
       0,
       Tail::Pad,
       "64 cannot distribute samples: invalid rank\n"
       "  rank:       0\n"
       "  world size: 0"},
      {100,
       8,
       0,
       1,
       Tail{},
       "64 cannot distribute samples: Tail is not set\n"
       "  try: SamplerOptions{.tail = Tail::Drop}, or Tail::Pad"},
  };

  for (const Refusal& bad : refusals) {
    EXPECT_EQ(message_of([&] {
                DistributedSampler({.dataset_size = bad.dataset_size,
                                    .global_batch = bad.global_batch,
                                    .rank = bad.rank,
                                    .world_size = bad.world_size,
                                    .tail = bad.tail});
              }),
              bad.message);
  }
}

TEST(DistributedSampler, RefusesStepsAndEpochsThatDoNotExist) {
  DistributedSampler sampler(kHundred);

  EXPECT_EQ(message_of([&] { sampler.indices(5); }),
            "64 step 5 does not exist: the epoch has 5 steps");
  EXPECT_EQ(message_of([&] { sampler.global_size(-1); }),
            "64 step -1 does not exist: the epoch has 5 steps");
  EXPECT_EQ(message_of([&] { sampler.set_epoch(-1); }),
            "64 invalid epoch -1: epochs are numbered from 0");
}

TEST(EvaluationSampler, CoversEverySampleExactlyOnceForEveryWorldSize) {
  for (const int64_t size : {1, 2, 5, 64, 100, 101}) {
    for (int world_size = 1; world_size <= 8; ++world_size) {
      for (const int64_t batch : {1, 7, 1000}) {
        SCOPED_TRACE(fmt::format("{} samples, {} workers, batch {}", size, world_size, batch));
        Indices all;
        for (int rank = 0; rank < world_size; ++rank) {
          const EvaluationSampler sampler({size, batch, rank, world_size});
          Indices mine;
          for (int64_t step = 0; step < sampler.steps(); ++step) {
            const Indices indices = sampler.indices(step);
            EXPECT_THAT(indices, Not(IsEmpty()));
            EXPECT_LE(static_cast<int64_t>(indices.size()), batch);
            mine.insert(mine.end(), indices.begin(), indices.end());
          }
          EXPECT_EQ(static_cast<int64_t>(mine.size()), sampler.size());
          all.insert(all.end(), mine.begin(), mine.end());
        }

        EXPECT_EQ(all, up_to(size));
      }
    }
  }
}

// How often each rank uses each of ten samples in an epoch.
std::vector<std::vector<int>> visits(SamplerOptions options, int64_t epoch = 0) {
  std::vector<std::vector<int>> result;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    DistributedSampler sampler(options);
    sampler.set_epoch(epoch);
    std::vector<int> seen(static_cast<size_t>(options.dataset_size), 0);
    for (int64_t step = 0; step < sampler.steps(); ++step) {
      for (const int64_t index : sampler.indices(step)) {
        ++seen[static_cast<size_t>(index)];
      }
    }
    result.push_back(seen);
  }
  return result;
}

SamplerOptions ten(Sharding sharding, Tail tail, std::vector<int64_t> files) {
  return {.dataset_size = 10,
          .global_batch = 4,
          .rank = 0,
          .world_size = 2,
          .tail = tail,
          .seed = 5,
          .sharding = sharding,
          .files = std::move(files)};
}

TEST(FileSharding, GivesEachWorkerWholeFiles) {
  // Files of 3, 2, 1 and 4 samples: rank 0 has the first and third, rank 1 the others.
  SamplerOptions in_order = ten(Sharding::File, Tail::Pad, {0, 3, 5, 6});
  in_order.shuffle = false;
  // The 4 samples of rank 0 fill 3 steps of 2 with the first two again.
  EXPECT_THAT(visits(in_order),
              ElementsAre(ElementsAre(2, 2, 1, 0, 0, 1, 0, 0, 0, 0),
                          ElementsAre(0, 0, 0, 1, 1, 0, 1, 1, 1, 1)));
  const auto dropped = visits(ten(Sharding::File, Tail::Drop, {0, 3, 5, 6}));
  EXPECT_EQ(std::accumulate(dropped[0].begin(), dropped[0].end(), 0), 4);
  EXPECT_EQ(std::accumulate(dropped[1].begin(), dropped[1].end(), 0), 4);
  EXPECT_EQ(dropped[1][0] + dropped[1][1] + dropped[1][2] + dropped[1][5], 0);
}

TEST(FileSharding, AgreesOnTheNumberOfSteps) {
  for (const Tail tail : {Tail::Drop, Tail::Pad}) {
    SamplerOptions options = ten(Sharding::File, tail, {0, 8});
    const DistributedSampler first(options);
    options.rank = 1;
    const DistributedSampler second(options);

    EXPECT_EQ(first.steps(), tail == Tail::Drop ? 1 : 4);
    EXPECT_EQ(second.steps(), first.steps());
    EXPECT_EQ(first.global_size(0), 4);
  }
}

TEST(FileSharding, ShufflesItsOwnSamplesAnewInEachEpoch) {
  DistributedSampler sampler(ten(Sharding::File, Tail::Drop, {0, 5}));
  std::set<Indices> orders;
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    sampler.set_epoch(epoch);
    Indices order = sampler.indices(0);
    const Indices more = sampler.indices(1);
    order.insert(order.end(), more.begin(), more.end());
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 4U);
}

TEST(FileSharding, NeedsAFileForEachWorkerAndABatchFromEach) {
  EXPECT_EQ(message_of([] { DistributedSampler(ten(Sharding::File, Tail::Drop, {0})); }),
            "64 cannot distribute files: fewer files than workers\n"
            "  files:   1  (data set)\n"
            "  workers: 2\n"
            "  try:     --auto-shard data");
  EXPECT_EQ(message_of([] {
              DistributedSampler(ten(Sharding::File, Tail::Drop, {0, 9}));
            }),
            "64 cannot train: the files of a worker do not fill its share of a batch\n"
            "  global batch: 4\n"
            "  try:          use a smaller batch, --tail pad, or --auto-shard data");
  EXPECT_EQ(message_of([] {
              DistributedSampler(ten(Sharding::File, Tail::Drop, {0, 6, 4}));
            }),
            "64 cannot distribute files: invalid file boundaries of the data set\n"
            "  expected: ascending sample numbers, the first 0\n"
            "  try:      --auto-shard data");
}

TEST(ShardingOff, ShowsEveryWorkerEverySampleInAnOrderOfItsOwn) {
  const SamplerOptions options = ten(Sharding::Off, Tail::Drop, {});
  EXPECT_THAT(visits(options), ElementsAre(Visits(10, 1), Visits(10, 1)));

  SamplerOptions other = options;
  other.rank = 1;
  EXPECT_NE(DistributedSampler(options).indices(0), DistributedSampler(other).indices(0));
  EXPECT_EQ(DistributedSampler(options).steps(), 5);
}

TEST(EvaluationSampler, LeavesARankWithoutSamplesWhenThereAreMoreWorkers) {
  const EvaluationSampler sampler({.dataset_size = 1, .batch = 8, .rank = 0, .world_size = 3});

  EXPECT_EQ(sampler.size(), 0);
  EXPECT_EQ(sampler.steps(), 0);
}

TEST(EvaluationSampler, RefusesWhatCannotBeEvaluated) {
  EXPECT_EQ(message_of([] {
              EvaluationSampler({100, 0, 0, 1});
            }),
            "64 cannot evaluate: no samples, or an empty batch\n"
            "  samples: 100\n"
            "  batch:   0");
  EXPECT_EQ(message_of([] {
              EvaluationSampler({0, 8, 0, 1});
            }),
            "64 cannot evaluate: no samples, or an empty batch\n"
            "  samples: 0\n"
            "  batch:   8");
  EXPECT_EQ(message_of([] {
              EvaluationSampler({100, 8, -1, 1});
            }),
            "64 cannot distribute samples: invalid rank\n"
            "  rank:       -1\n"
            "  world size: 1");
}

}  // namespace
}  // namespace lockstep
