// SPDX-License-Identifier: Apache-2.0
#include "training/comm/block_allocator.h"

#include <cstring>
#include <gmock/gmock.h>
#include <thread>
#include <torch/torch.h>
#include <vector>

namespace lockstep::comm {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(Blocks, AreGivenOutAgain) {
  Blocks blocks;
  void* first = blocks.take(4 * kMiB);
  ASSERT_NE(first, nullptr);
  std::memset(first, 1, 4 * kMiB);
  EXPECT_TRUE(blocks.give(first));
  EXPECT_EQ(blocks.take(4 * kMiB - 5), first);  // the same after rounding up
  EXPECT_TRUE(blocks.give(first));
  EXPECT_EQ(blocks.take(4 * kMiB - kMiB / 4), first);  // a little smaller
  EXPECT_NE(blocks.take(2 * kMiB), nullptr);
  EXPECT_EQ(blocks.mapped_bytes(), 6 * kMiB);
}

TEST(Blocks, AreNotMappedBeyondWhatWasEverUsed) {
  Blocks blocks;
  for (size_t size = 1; size <= 64; ++size) {
    void* block = blocks.take(size * kMiB);
    EXPECT_LE(blocks.mapped_bytes(), size * kMiB + size * kMiB / 16);
    blocks.give(block);
  }
  EXPECT_EQ(blocks.used_bytes(), 0U);
  EXPECT_GE(blocks.mapped_bytes(), 64 * kMiB);
  blocks.trim();
  EXPECT_EQ(blocks.mapped_bytes(), 0U);
}

TEST(Blocks, OfOthersAreRefused) {
  Blocks blocks;
  int other = 0;
  EXPECT_FALSE(blocks.give(&other));
}

TEST(Blocks, ServeManyThreads) {
  Blocks blocks;
  {
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&blocks, thread] {
        for (size_t i = 0; i < 200; ++i) {
          auto* block = static_cast<char*>(blocks.take((1 + i % 5) * kMiB));
          ASSERT_NE(block, nullptr);
          *block = static_cast<char>(thread);
          ASSERT_EQ(*block, static_cast<char>(thread));
          ASSERT_TRUE(blocks.give(block));
        }
      });
    }
  }
  EXPECT_EQ(blocks.used_bytes(), 0U);
}

TEST(KeepBlocks, MakesLargeTensorsOfThem) {
  keep_blocks();
  const torch::Tensor small = torch::ones({10});
  const void* place = nullptr;
  {
    const torch::Tensor large = torch::ones({1 << 20});
    place = large.data_ptr();
    EXPECT_EQ(large.sum().item<float>(), 1 << 20);
  }
  const torch::Tensor again = torch::empty({1 << 20});
  EXPECT_EQ(again.data_ptr(), place);
  // A resized tensor keeps its values.
  torch::Tensor grown = torch::arange(10);
  grown.resize_({1 << 20});
  EXPECT_EQ(grown[9].item<int64_t>(), 9);
  give_back();
}

}  // namespace
}  // namespace lockstep::comm
