// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <torch/types.h>

namespace lockstep::models {

// State shared by the fused parts of one model. Belongs to the GPU that is current when it is
// created.
class FusedEngine;
using FusedEnginePtr = std::shared_ptr<FusedEngine>;

// Fused parts of GPT-2: forward and backward of whole blocks with cuBLASLt, the attention of cuDNN
// and kernels of lockstep. Hidden states between blocks are bfloat16 [N, T, width]. Weights can
// have any type; their gradients are float32.

// Returns null if the fused parts cannot be used: the build has no CUDA, `like` (a weight) is not
// on a GPU or the GPU is too old, or the kernels do not support the sizes.
FusedEnginePtr make_fused_engine(const torch::Tensor& like, int64_t width, int64_t heads);

// Returns whether this thread computes in bfloat16 on a GPU with such weights, because of autocast
// or because the weights are bfloat16.
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

// Computes the sum of token and position embeddings.
torch::Tensor fused_embedding(const torch::Tensor& tokens,
                              const torch::Tensor& token_table,
                              const torch::Tensor& position_table);

// Computes the mean cross entropy of `targets` [N, T] and the scores of `hidden` with the token
// table. Negative targets are ignored. Scores are computed in chunks of rows and never stored as a
// whole.
torch::Tensor fused_token_loss(const FusedEnginePtr& engine,
                               const torch::Tensor& hidden,
                               const torch::Tensor& token_table,
                               const torch::Tensor& targets);

}  // namespace lockstep::models
