// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <torch/types.h>

namespace lockstep::models {

// What the fused parts of one model share; made on the GPU that is current.
class FusedEngine;
using FusedEnginePtr = std::shared_ptr<FusedEngine>;

// The fused parts of a GPT-2: whole blocks, forward and backward, by cuBLASLt, cuDNN's attention
// and our own kernels. The stream of values between blocks is bfloat16 [N, T, width]; weights may
// be of any type, and get gradients in float32.

// Null where they cannot be used: this build has no CUDA, `like`, a weight, is not on a GPU, what
// is computed there is not bfloat16, or sizes do not fit the kernels.
FusedEnginePtr make_fused_engine(const torch::Tensor& like, int64_t width, int64_t heads);

// Whether what is computed on this thread with such weights is bfloat16 on a GPU: by autocast or by
// their own type.
bool computes_in_bf16(const torch::Tensor& weight);

// Returns the reason why fp8 is unavailable on `device`, or an empty string if it is available.
std::string reason_against_fp8(torch::Device device);

// Must be called at the start of a forward pass. Its blocks compute in fp8, or in bfloat16 if
// `is_fp8` is false. If `trains` is true, a backward pass follows and maxima are recorded for later
// scales.
void begin_pass(const FusedEnginePtr& engine,
                const torch::Tensor& like,
                int64_t blocks,
                bool is_fp8,
                bool trains);

struct FusedLinear {
  torch::Tensor weight;  // [in, out]
  torch::Tensor bias;
};

struct FusedNorm {
  torch::Tensor weight;
  torch::Tensor bias;
};

struct FusedBlock {
  FusedNorm first;
  FusedLinear mix;
  FusedLinear out;
  FusedNorm second;
  FusedLinear up;
  FusedLinear down;
  int64_t index = 0;  // position in the model; selects the fp8 scales
};

torch::Tensor fused_block(const FusedEnginePtr& engine,
                          const torch::Tensor& input,
                          const FusedBlock& block,
                          int64_t heads);

torch::Tensor fused_norm(const torch::Tensor& input, const FusedNorm& norm);

// The sum of both embeddings.
torch::Tensor fused_embedding(const torch::Tensor& tokens,
                              const torch::Tensor& token_table,
                              const torch::Tensor& position_table);

// The mean cross entropy of `targets` [N, T], those below zero left out, with scores made of
// `hidden` and the table. Scores are made for some rows at a time, and never kept.
torch::Tensor fused_token_loss(const FusedEnginePtr& engine,
                               const torch::Tensor& hidden,
                               const torch::Tensor& token_table,
                               const torch::Tensor& targets);

}  // namespace lockstep::models
