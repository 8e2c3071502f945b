// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <torch/nn.h>
#include <torch/types.h>
#include <utility>
#include <vector>

// GPT-2: the model, its published sizes and the generation of text.
//
//   auto options = gpt2_options("124M");
//   options.recompute = session.recompute();
//   auto net = std::make_shared<Gpt2>(options);
//   trainer.fit(*net, *adamw, data.train, data.test, lockstep::NextToken());
//   const auto tokens = generate(*net, {tokenizer.end_of_text()}, {.count = 20});
namespace lockstep {

// The size of a GPT-2 model and how it computes. The defaults are the 124M model.
struct Gpt2Options {
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t width = 768;
  int64_t context = 1024;  // maximum number of tokens of an input
  int64_t vocabulary = 50257;
  double dropout = 0;      // of the embeddings, the attention and the residual branches
  bool recompute = false;  // recompute the activations of the blocks in backward to save memory
};

// Returns the options of a published size: 124M, 355M, 774M or 1.5B, also under the Hugging Face
// names gpt2, gpt2-medium, gpt2-large and gpt2-xl; or `tiny`, for tests. Throws an Error that lists
// the names if `name` is not one of them.
Gpt2Options gpt2_options(const std::string& name);

// The names that gpt2_options() accepts.
std::vector<std::string> gpt2_names();

// GPT-2 with the parameter names of Hugging Face's GPT2LMHeadModel. Projection weights have the
// shape [in, out]. The token embedding is also the output projection (tied weights).
//
// The constructor initializes the weights from libtorch's global random generator; run() seeds it
// identically on all workers. Thread safety is that of a torch::nn::Module: use a model from one
// thread.
class Gpt2 : public torch::nn::Module {
 public:
  // Throws an Error unless options.width is a multiple of options.heads.
  explicit Gpt2(const Gpt2Options& options);

  // Returns the scores [N, T, vocabulary] of the next token after each of `tokens`, int64 [N, T].
  // Throws an Error if T exceeds the context.
  torch::Tensor forward(const torch::Tensor& tokens);

  // Returns the last hidden state [N, T, width]. forward() is scores(hidden(tokens)).
  torch::Tensor hidden(const torch::Tensor& tokens);

  // Returns the scores for hidden states of the shape [..., width].
  torch::Tensor scores(const torch::Tensor& hidden);

  // Returns the mean cross entropy of the next token over all tokens. `targets` has the shape of
  // `tokens`; negative targets are ignored. On a GPU in bfloat16 without dropout, lockstep's fused
  // kernels compute the entire loss and never store the scores.
  torch::Tensor loss(const torch::Tensor& tokens, const torch::Tensor& targets);

  // The options of the constructor.
  const Gpt2Options& options() const { return options_; }

 private:
  class Block;
  struct Engine;
  std::shared_ptr<Engine> find_engine();

  Gpt2Options options_;
  std::shared_ptr<Engine> engine_;  // fused kernels, for the device that last held the weights
  torch::nn::Embedding token_ = nullptr;
  torch::nn::Embedding position_ = nullptr;
  torch::nn::Dropout dropout_ = nullptr;
  std::vector<std::shared_ptr<Block>> blocks_;
  torch::nn::LayerNorm norm_ = nullptr;
};

// Converts weights of other programs to the names of Gpt2: adds the prefix "transformer." where it
// is missing, and removes tensors that are not weights ("attn.bias") and duplicates of tied weights
// ("lm_head.weight").
//
//   apply_model(*net, as_gpt2_weights(load_weights(file)), file);
std::vector<std::pair<std::string, torch::Tensor>> as_gpt2_weights(
    std::vector<std::pair<std::string, torch::Tensor>> weights);

// How generate() samples tokens.
struct GenerateOptions {
  int64_t count = 64;      // maximum number of tokens to add
  double temperature = 1;  // 0: always the most likely token
  int64_t top_k = 40;      // sample from this many most likely tokens; 0: from all
  uint64_t seed = 1;
  int64_t stop = -1;  // end after this token, for example Tokenizer::end_of_text(); -1: none
};

// Returns `prompt` followed by the tokens that the model generates. Throws an Error if `prompt` is
// empty. The model computes in evaluation mode, without gradients, and is in its previous mode
// afterwards. Only the last Gpt2Options::context tokens influence the next one. The result depends
// only on the model, the prompt and the options; the global random generator is not used.
std::vector<int64_t> generate(Gpt2& model,
                              std::vector<int64_t> prompt,
                              const GenerateOptions& options = {});

}  // namespace lockstep
