// SPDX-License-Identifier: Apache-2.0
//
// Data sets whose samples depend on the epoch or are omitted, under every wrapper.
#include <gmock/gmock.h>
#include <vector>

#include "lockstep/dataset.h"
#include "lockstep/loader.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Sample i is 100 * epoch + i; odd ones are omitted from a batch on request.
class Drifting : public Dataset {
 public:
  explicit Drifting(int64_t epoch = 0, bool leaves_out = false)
      : epoch_(epoch), leaves_out_(leaves_out) {}

  int64_t size() const override { return 6; }

  Example example(int64_t index) const override {
    return {torch::tensor(100 * epoch_ + index), torch::tensor(100 * epoch_ + index)};
  }

  Batch batch(std::span<const int64_t> indices) const override {
    std::vector<int64_t> kept;
    for (const int64_t index : indices) {
      if (!leaves_out_ || index % 2 == 0) {
        kept.push_back(index);
      }
    }
    return Dataset::batch(kept);
  }

  DatasetPtr in_epoch(int64_t epoch) const override {
    return std::make_shared<Drifting>(epoch, leaves_out_);
  }

 private:
  int64_t epoch_;
  bool leaves_out_;
};

DatasetPtr drifting() {
  return std::make_shared<Drifting>();
}

DatasetPtr with_gaps() {
  return std::make_shared<Drifting>(0, true);
}

std::vector<int64_t> values(const torch::Tensor& tensor) {
  if (!tensor.defined()) {
    return {};
  }
  const auto flat = tensor.contiguous();
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

std::vector<int64_t> values(const DatasetPtr& dataset, const std::vector<int64_t>& indices) {
  const Batch batch = dataset->batch(indices);
  EXPECT_EQ(values(batch.input), values(batch.target));
  return values(batch.target);
}

TEST(InEpoch, GoesThroughEveryWrapper) {
  const DatasetPtr still = tensors(torch::arange(10, 13), torch::arange(10, 13));
  const auto negate = [](Example one) {
    return Example{-one.input, -one.target};
  };
  const auto double_it = [](Batch all) {
    return Batch{all.input * 2, all.target * 2};
  };

  EXPECT_THAT(values(map(drifting(), negate)->in_epoch(2), {0, 1}), ElementsAre(-200, -201));
  EXPECT_THAT(values(map_batches(drifting(), double_it)->in_epoch(2), {0, 1}),
              ElementsAre(400, 402));
  EXPECT_THAT(values(concat({still, drifting()})->in_epoch(3), {4, 0, 3}),
              ElementsAre(301, 10, 300));
  EXPECT_THAT(values(take(drifting(), 2)->in_epoch(1), {1, 0}), ElementsAre(101, 100));
  EXPECT_THAT(values(shard(drifting(), 1, 2)->in_epoch(1), {0, 1, 2}), ElementsAre(101, 103, 105));
  const std::vector<int64_t> now = values(shuffle(drifting(), 7), {0, 1, 2});
  EXPECT_THAT(values(shuffle(drifting(), 7)->in_epoch(1), {0, 1, 2}),
              ElementsAre(now[0] + 100, now[1] + 100, now[2] + 100));
  const DatasetPtr chain = map_batches(shard(take(shuffle(drifting(), 7), 5), 0, 2), double_it);
  EXPECT_EQ(values(chain->in_epoch(1), {0})[0], values(chain, {0})[0] + 200);
  EXPECT_EQ(values(chain->in_epoch(1)->in_epoch(2), {0})[0], values(chain, {0})[0] + 400);
}

TEST(InEpoch, IsNullWhereSamplesAreTheSameInAllEpochs) {
  const DatasetPtr still = tensors(torch::arange(4), torch::arange(4));
  const auto same = [](Example one) {
    return one;
  };
  const auto same_batch = [](Batch all) {
    return all;
  };
  for (const auto& any : {still,
                          map(still, same),
                          map_batches(still, same_batch),
                          concat({still, still}),
                          take(still, 2),
                          shard(still, 0, 2),
                          shuffle(still, 1),
                          on_device(still, torch::kMeta)}) {
    EXPECT_EQ(any->in_epoch(1), nullptr);
  }
}

TEST(InEpoch, IsReadAgainWhereSamplesWereKeptOnADevice) {
  const bool has_gpu = torch::cuda::is_available();
  const DatasetPtr kept =
      on_device(drifting(), has_gpu ? torch::Device("cuda:0") : torch::Device(torch::kMeta));
  const DatasetPtr later = kept->in_epoch(2);

  ASSERT_NE(later, nullptr);
  EXPECT_EQ(later->device(), kept->device());
  EXPECT_EQ(later->size(), 6);
  if (has_gpu) {
    EXPECT_EQ(later->example(3).target.item<int64_t>(), 203);
  }
}

TEST(InEpoch, IsWhatALoaderAsksForByTheEpochOfItsSampler) {
  DistributedSampler sampler({.dataset_size = 6,
                              .global_batch = 2,
                              .rank = 0,
                              .world_size = 1,
                              .tail = Tail::Drop,
                              .shuffle = false});
  sampler.set_epoch(4);
  for (const int threads : {-1, 0, 1, 2, 5}) {
    SCOPED_TRACE(threads);
    Loader loader(drifting(), sampler, {.first_step = 1, .threads = threads});

    EXPECT_THAT(values(loader.next()->target), ElementsAre(402, 403));
    EXPECT_THAT(values(loader.next()->target), ElementsAre(404, 405));
    EXPECT_FALSE(loader.next().has_value());
  }
}

TEST(LeftOutSamples, AreMissingUnderEveryWrapper) {
  const DatasetPtr still = tensors(torch::arange(10, 13), torch::arange(10, 13));
  const auto double_it = [](Batch all) {
    return Batch{all.input * 2, all.target * 2};
  };

  EXPECT_THAT(values(map_batches(with_gaps(), double_it), {1, 2, 3, 4}), ElementsAre(4, 8));
  EXPECT_THAT(values(map_batches(with_gaps(), double_it), {1, 3}), IsEmpty());
  EXPECT_THAT(values(take(with_gaps(), 4), {3, 2, 1, 0}), ElementsAre(2, 0));
  EXPECT_THAT(values(concat({with_gaps(), still}), {5, 7, 4, 3, 6, 2}), ElementsAre(11, 4, 10, 2));
  EXPECT_THAT(values(concat({with_gaps(), still}), {5, 3}), IsEmpty());
  EXPECT_EQ(on_device(with_gaps(), torch::kMeta)->size(), 3);
}

}  // namespace
}  // namespace lockstep
