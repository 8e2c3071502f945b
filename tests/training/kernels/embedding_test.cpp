// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/embedding.h"

#include <tuple>

#include "training/kernels/support.h"

namespace lockstep::kernels {
namespace {

// Expects one float32 sum per token, added to the existing content.
void expect_embedding_gradient(const torch::Tensor& tokens, int64_t vocabulary, int64_t columns) {
  const int64_t count = tokens.size(0);
  const torch::Tensor slope = random_bf16({count, columns});
  const torch::Tensor before = random_floats({vocabulary, columns});
  torch::Tensor sorted;
  torch::Tensor order;
  std::tie(sorted, order) = tokens.sort(true, 0, false);
  const auto run = [&] {
    torch::Tensor gradient = before.clone();
    embedding_backward(
        floats(gradient), bf16(slope), integers(sorted), integers(order), count, columns, stream());
    return gradient;
  };
  const torch::Tensor result = run();
  EXPECT_TRUE(torch::equal(result, run()));
  const torch::Tensor wide = slope.to(torch::kFloat64);
  const torch::Tensor start = before.to(torch::kFloat64);
  const torch::Tensor expected = start.index_add(0, tokens, wide);
  const torch::Tensor size = start.abs().index_add(0, tokens, wide.abs());
  expect_within(result, expected, size * kSumBound);
}

TEST(EmbeddingBackward, AddsUpFrequentAndRareTokens) {
  LOCKSTEP_NEEDS_GPU();
  for (const int64_t columns : {8, 32, 768, 1600, 3072}) {
    SCOPED_TRACE(columns);
    // As in natural language, few tokens are frequent and most are rare.
    const torch::Tensor tokens =
        (torch::rand({20011}, on_gpu(torch::kFloat32)).pow(8) * 3000).to(torch::kInt64);
    expect_embedding_gradient(tokens, 3000, columns);
  }
}

TEST(EmbeddingBackward, HasNoSeamBetweenShortAndLongRuns) {
  LOCKSTEP_NEEDS_GPU();
  std::vector<int64_t> all;
  int64_t token = 0;
  for (const int64_t length : {1, 2, 31, 32, 33, 62, 63, 64, 65, 127, 255, 256, 257, 300, 1, 700}) {
    all.insert(all.end(), static_cast<size_t>(length), token);
    token += 2;  // the tokens between them do not occur
  }
  const torch::Tensor tokens = torch::tensor(all, torch::kInt64).to(torch::kCUDA);
  const torch::Tensor mixed =
      tokens.index_select(0, torch::randperm(tokens.size(0), on_gpu(torch::kInt64)));
  for (const int64_t columns : {8, 72, 768}) {
    SCOPED_TRACE(columns);
    expect_embedding_gradient(mixed, token + 1, columns);
  }
}

TEST(EmbeddingBackward, HoldsForOneTokenOnly) {
  LOCKSTEP_NEEDS_GPU();
  for (const int64_t count : {1, 63, 64, 70001}) {
    SCOPED_TRACE(count);
    expect_embedding_gradient(torch::full({count}, 3, on_gpu(torch::kInt64)), 5, 768);
  }
}

TEST(PlaceBackward, AddsUpTheSequences) {
  LOCKSTEP_NEEDS_GPU();
  for (const int64_t columns : {8, 768, 1600}) {
    for (const int64_t sequences : {1, 7, 8, 64}) {
      SCOPED_TRACE(columns);
      const int64_t length = 129;
      const torch::Tensor slope = random_bf16({sequences * length, columns});
      const torch::Tensor result = poison({length, columns}, torch::kFloat32);
      position_backward(floats(result), bf16(slope), sequences * length, length, columns, stream());
      expect_sums(result, slope.view({sequences, length, columns}));
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
