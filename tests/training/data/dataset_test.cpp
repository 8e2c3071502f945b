// SPDX-License-Identifier: Apache-2.0
#include "lockstep/dataset.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <vector>

#include "training/data/message_of.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// Sample i has input {i, 10 * i} and target 100 + i.
DatasetPtr numbers(int64_t size) {
  const auto rows = torch::arange(size, torch::kFloat32);
  return tensors(torch::stack({rows, 10 * rows}, 1), torch::arange(100, 100 + size));
}

// The same samples, without a fast batch().
class SlowNumbers : public Dataset {
 public:
  int64_t size() const override { return 10; }
  Example example(int64_t index) const override {
    return {torch::tensor({static_cast<float>(index), 10.0F * static_cast<float>(index)}),
            torch::tensor(100 + index)};
  }
};

std::vector<int64_t> targets(const Batch& batch) {
  const auto flat = batch.target.contiguous();
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

std::vector<int64_t> targets(const Dataset& dataset, std::vector<int64_t> indices) {
  return targets(dataset.batch(indices));
}

// All samples in order, read one by one and as a batch.
std::vector<int64_t> all_targets(const Dataset& dataset) {
  std::vector<int64_t> indices;
  std::vector<int64_t> singles;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    indices.push_back(i);
    singles.push_back(dataset.example(i).target.item<int64_t>());
  }
  EXPECT_EQ(targets(dataset, indices), singles);
  return singles;
}

TEST(Dataset, StacksExamplesIntoABatchInTheOrderAsked) {
  const SlowNumbers slow;
  const std::vector<int64_t> indices = {3, 1, 3};
  const Batch batch = slow.batch(indices);
  const Batch fast = numbers(10)->batch(indices);

  EXPECT_EQ(batch.size(), 3);
  EXPECT_TRUE(
      torch::equal(batch.input, torch::tensor({{3.0F, 30.0F}, {1.0F, 10.0F}, {3.0F, 30.0F}})));
  EXPECT_THAT(targets(batch), ElementsAre(103, 101, 103));
  EXPECT_TRUE(torch::equal(batch.input, fast.input));
  EXPECT_TRUE(torch::equal(batch.target, fast.target));
}

TEST(OnDevice, IsTheDataSetItselfWhereItLiesThere) {
  const DatasetPtr here = tensors(torch::ones({3, 2}), torch::ones({3}));
  EXPECT_EQ(on_device(here, torch::kCPU), here);
  EXPECT_EQ(on_device(nullptr, torch::kCPU), nullptr);
  EXPECT_EQ(take(here, 2)->device(), torch::kCPU);
}

TEST(Dataset, GivesAnEmptyBatchForNoIndices) {
  EXPECT_EQ(SlowNumbers().batch({}).size(), 0);
  EXPECT_EQ(numbers(10)->batch({}).size(), 0);
  EXPECT_EQ(Batch().size(), 0);
}

TEST(Batch, SlicesIntoViewsOfItself) {
  const std::vector<int64_t> indices = {0, 1, 2, 3, 4};
  const Batch batch = numbers(5)->batch(indices);
  const Batch part = batch.slice(1, 3);

  EXPECT_THAT(targets(part), ElementsAre(101, 102));
  EXPECT_EQ(part.input.data_ptr<float>(), batch.input.data_ptr<float>() + 2);
  EXPECT_EQ(batch.slice(2, 2).size(), 0);
  EXPECT_EQ(message_of([&] { batch.slice(3, 6); }),
            "64 invalid range 3 to 6 in a batch of 5 samples");
  EXPECT_EQ(message_of([&] { batch.slice(3, 2); }),
            "64 invalid range 3 to 2 in a batch of 5 samples");
}

TEST(Batch, StaysWhereItIsIfItIsThereAlready) {
  const std::vector<int64_t> indices = {0, 1};
  const Batch batch = numbers(5)->batch(indices);
  const Batch same = batch.to(torch::kCPU);

  EXPECT_EQ(same.input.data_ptr(), batch.input.data_ptr());
  EXPECT_EQ(same.target.scalar_type(), torch::kInt64);
}

TEST(Wrappers, MapChangesEachExample) {
  const auto doubled = map(numbers(3), [](Example one) {
    return Example{one.input * 2, one.target + 1};
  });

  EXPECT_THAT(all_targets(*doubled), ElementsAre(101, 102, 103));
  EXPECT_TRUE(torch::equal(doubled->example(2).input, torch::tensor({4.0F, 40.0F})));
}

TEST(Wrappers, MapBatchesChangesWholeBatchesAndSingleExamplesAlike) {
  int calls = 0;
  const auto changed = map_batches(numbers(3), [&](Batch batch) {
    ++calls;
    return Batch{batch.input, batch.target + 1};
  });

  EXPECT_THAT(targets(*changed, {0, 1, 2}), ElementsAre(101, 102, 103));
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(all_targets(*changed), ElementsAre(101, 102, 103));
  const auto shorter = map_batches(numbers(3), [](Batch batch) { return batch.slice(0, 1); });
  EXPECT_EQ(message_of([&] {
              targets(*shorter, {0, 1});
            }),
            "64 cannot map batches: the function changed the batch size\n"
            "  expected: 2\n"
            "  found:    1");
}

TEST(Wrappers, TakeKeepsTheFirstSamples) {
  EXPECT_THAT(all_targets(*take(numbers(10), 3)), ElementsAre(100, 101, 102));
  EXPECT_EQ(take(numbers(10), 0)->size(), 0);
  EXPECT_EQ(message_of([] { take(numbers(10), 11); }),
            "64 cannot take 11 samples: the data set has 10 samples");
  EXPECT_EQ(message_of([] { take(numbers(10), -1); }),
            "64 cannot take -1 samples: the data set has 10 samples");
}

TEST(Wrappers, ShardsAreDisjointAndCoverTheDataSet) {
  EXPECT_THAT(all_targets(*shard(numbers(10), 1, 4)), ElementsAre(101, 105, 109));
  for (int64_t count = 1; count <= 12; ++count) {
    std::vector<int64_t> all;
    for (int64_t index = 0; index < count; ++index) {
      const auto part = shard(numbers(10), index, count);
      EXPECT_LE(std::abs(part->size() * count - 10), count);
      const auto some = all_targets(*part);
      all.insert(all.end(), some.begin(), some.end());
    }
    std::ranges::sort(all);
    EXPECT_EQ(all, all_targets(*numbers(10))) << count << " shards";
  }
  EXPECT_EQ(message_of([] { shard(numbers(10), 4, 4); }),
            "64 invalid part 4 of 4: parts are numbered from 0");
}

TEST(Wrappers, ShuffleKeepsEverySampleAndFollowsTheSeed) {
  const auto once = all_targets(*shuffle(numbers(8), 1));

  EXPECT_THAT(once, UnorderedElementsAre(100, 101, 102, 103, 104, 105, 106, 107));
  EXPECT_EQ(all_targets(*shuffle(numbers(8), 1)), once);
  EXPECT_NE(all_targets(*shuffle(numbers(8), 2)), once);
}

TEST(Wrappers, ChainIntoOneBatchOfTheInnermostDataSet) {
  int calls = 0;
  const auto inner = map_batches(numbers(100), [&](Batch batch) {
    ++calls;
    return batch;
  });
  const auto chain = shard(take(shuffle(inner, 3), 50), 1, 5);

  EXPECT_EQ(chain->size(), 10);
  EXPECT_EQ(targets(*chain, {0, 1, 2, 3}).size(), 4U);
  EXPECT_EQ(calls, 1);
}

TEST(Dataset, RefusesSamplesThatItDoesNotHave) {
  const auto dataset = numbers(10);
  for (const auto& any :
       {dataset, take(numbers(11), 10), shard(numbers(20), 0, 2), shuffle(numbers(10), 1)}) {
    EXPECT_EQ(message_of([&] { any->example(10); }),
              "64 sample 10 does not exist: the data set has 10 samples");
    EXPECT_EQ(message_of([&] {
                targets(*any, {0, -1});
              }),
              "64 sample -1 does not exist: the data set has 10 samples");
  }
}

TEST(Tensors, MustHaveTheSameNumberOfRows) {
  EXPECT_EQ(message_of([] {
              tensors(torch::zeros({3, 2}), torch::zeros({4}));
            }),
            "64 cannot make a data set of tensors that are empty or have different numbers of "
            "rows\n"
            "  input:  3\n"
            "  target: 4");
}

TEST(Concat, PutsOneDataSetAfterTheOther) {
  const DatasetPtr first = tensors(torch::arange(3), torch::arange(3));
  const DatasetPtr second = tensors(torch::arange(10, 15), torch::arange(10, 15));
  const DatasetPtr both = concat({first, second});
  const std::vector<int64_t> some = {4, 0, 7, 2};

  EXPECT_EQ(both->size(), 8);
  EXPECT_TRUE(both->batch(some).input.equal(torch::tensor({11, 0, 14, 2})));
  EXPECT_TRUE(both->batch(some).target.equal(torch::tensor({11, 0, 14, 2})));
  EXPECT_EQ(both->example(3).input.item<int64_t>(), 10);
  EXPECT_EQ(message_of([] { concat({}); }),
            "64 cannot concatenate data sets: none given, or one is empty\n"
            "  data sets: 0");
}

TEST(Files, AreKnownThroughAChainOfDataSets) {
  const DatasetPtr part = tensors(torch::arange(4), torch::arange(4));
  const DatasetPtr three = concat({part, concat({part, part})});

  EXPECT_THAT(part->files(), ElementsAre(0));
  EXPECT_THAT(three->files(), ElementsAre(0, 4, 8));
  EXPECT_THAT(map(three, [](Example each) { return each; })->files(), ElementsAre(0, 4, 8));
  EXPECT_THAT(map_batches(three, [](Batch each) { return each; })->files(), ElementsAre(0, 4, 8));
  EXPECT_THAT(take(three, 8)->files(), ElementsAre(0, 4));
  EXPECT_THAT(shuffle(three, 1)->files(), ElementsAre(0));
  EXPECT_THAT(shard(three, 1, 2)->files(), ElementsAre(0));
}

}  // namespace
}  // namespace lockstep
