// SPDX-License-Identifier: Apache-2.0
//
// Images that are decoded directly into pinned memory.
#include <gmock/gmock.h>
#include <numeric>
#include <torch/cuda.h>

#include "lockstep/datasets.h"
#include "lockstep/loader.h"
#include "support/image_set.h"

namespace lockstep {
namespace {

TEST(AugmentedImages, AreTheSameInPinnedMemory) {
  if (!torch::cuda::is_available()) {
    GTEST_SKIP() << "needs a GPU to pin memory for";
  }
  const TinyFolders folders(8, 2);
  const DatasetPtr train = tiny_imagenet(folders.path()).train;
  std::vector<int64_t> all(8);
  std::iota(all.begin(), all.end(), 0);
  const Batch usual = train->batch(all);
  for (const DatasetPtr& dataset : {train, take(train, 8)}) {
    Loader loader(dataset, 1, [&](int64_t) { return all; }, {.pin_memory = true});
    const Batch batch = *loader.next();

    EXPECT_TRUE(batch.input.is_pinned() && batch.target.is_pinned());
    EXPECT_TRUE(batch.input.is_contiguous(torch::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(batch.input.equal(usual.input));
    EXPECT_TRUE(batch.target.equal(usual.target));
    EXPECT_TRUE(batch.to(torch::kCUDA, true).input.cpu().equal(usual.input));
  }
}

}  // namespace
}  // namespace lockstep
