// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <torch/torch.h>
#include <utility>
#include <vector>

namespace lockstep {

struct Gpt2Options {
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t width = 768;
  int64_t context = 1024;  // the longest text that it can look at
  int64_t vocabulary = 50257;
  double dropout = 0;      // of embeddings, attention and what is added to the stream
  bool recompute = false;  // computes the blocks again in backward: less memory
};

// The sizes that were published: 124M, 355M, 774M, 1.5B, or as Hugging Face calls them gpt2,
// gpt2-medium, gpt2-large, gpt2-xl; and `tiny`, for tests. Throws an Error that lists them.
Gpt2Options gpt2_options(const std::string& name);

std::vector<std::string> gpt2_names();

class Gpt2Block;

namespace models {
class FusedEngine;
}

// GPT-2, with the parameter names of Hugging Face's GPT2LMHeadModel: projections are [in, out] and
// the embedding of tokens is also what their scores are made with.
class Gpt2 : public torch::nn::Module {
 public:
  explicit Gpt2(const Gpt2Options& options);

  // Scores [N, T, vocabulary] for what follows each of tokens [N, T], int64.
  torch::Tensor forward(const torch::Tensor& tokens);

  // The last hidden state [N, T, width], from which forward() makes the scores.
  torch::Tensor hidden(const torch::Tensor& tokens);

  // Scores for hidden states, whatever stands before the width.
  torch::Tensor scores(const torch::Tensor& hidden);

  // The mean over all tokens of the cross entropy of what follows each of them; targets [N, T] as
  // tokens, those below zero left out. On a GPU in bfloat16 without dropout all of it goes by
  // kernels of our own, and scores are never kept.
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets);

  const Gpt2Options& options() const { return options_; }

 private:
  std::shared_ptr<models::FusedEngine> find_engine();

  Gpt2Options options_;
  std::shared_ptr<models::FusedEngine> engine_;  // of the GPU that the weights were last seen on
  std::optional<torch::Device> engine_device_;
  torch::nn::Embedding token_ = nullptr;
  torch::nn::Embedding position_ = nullptr;
  torch::nn::Dropout dropout_ = nullptr;
  std::vector<std::shared_ptr<Gpt2Block>> blocks_;
  torch::nn::LayerNorm norm_ = nullptr;
};

// The weights of a file of others with the names of Gpt2: with or without "transformer." before
// them, and without what is no weight ("attn.bias") or is there twice ("lm_head.weight").
std::vector<std::pair<std::string, torch::Tensor>> as_gpt2_weights(
    std::vector<std::pair<std::string, torch::Tensor>> weights);

struct GenerateOptions {
  int64_t count = 64;      // tokens to add
  double temperature = 1;  // 0: always the likeliest
  int64_t top_k = 40;      // only the likeliest so many are drawn from; 0: all
  uint64_t seed = 1;
  int64_t stop = -1;  // a token to end with, such as end_of_text(); -1: none
};

// `prompt`, at least one token, and what the model writes after it. Looks back as far as its
// context reaches.
std::vector<int64_t> generate(Gpt2& model,
                              std::vector<int64_t> prompt,
                              const GenerateOptions& options = {});

}  // namespace lockstep
