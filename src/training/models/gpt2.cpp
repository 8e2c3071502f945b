// SPDX-License-Identifier: Apache-2.0
#include "lockstep/gpt2.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <torch/nn.h>
#include <torch/utils.h>
#include <torch/version.h>

#include "lockstep/error.h"
#include "lockstep/recompute.h"
#include "training/models/autocast.h"
#include "training/models/gpt2_fused.h"

namespace lockstep {
namespace {

namespace nn = torch::nn;

// Standard deviation of initial weights, as in the GPT-2 of OpenAI. Projections that add to the
// residual stream start smaller, by 1 / sqrt(2 * layers): each of the `layers` blocks adds twice,
// so the variance of the stream does not grow with the depth.
constexpr double kSpread = 0.02;

// A linear layer whose weight is [in, out], the transpose of nn::Linear (Conv1D of Hugging Face).
// Their weight files have this layout.
class Projection : public nn::Module {
 public:
  Projection(int64_t in, int64_t out, double spread)
      : weight_(register_parameter("weight", torch::randn({in, out}) * spread)),
        bias_(register_parameter("bias", torch::zeros({out}))) {}

  torch::Tensor forward(const torch::Tensor& input) const {
    std::vector<int64_t> shape = input.sizes().vec();
    shape.back() = bias_.size(0);
    return torch::addmm(bias_, input.reshape({-1, weight_.size(0)}), weight_).view(shape);
  }

  models::FusedLinear parts() const { return {weight_, bias_}; }

 private:
  torch::Tensor weight_;
  torch::Tensor bias_;
};

// Causal attention over [N, heads, T, head width]: softmax(Q K^T / sqrt(head width)) V, where
// position t sees positions 0 to t.
torch::Tensor attend(const torch::Tensor& query,
                     const torch::Tensor& key,
                     const torch::Tensor& value,
                     double dropout) {
#if TORCH_VERSION_MAJOR >= 2
  return at::scaled_dot_product_attention(query, key, value, {}, dropout, /*is_causal=*/true);
#else
  const int64_t length = query.size(2);
  torch::Tensor scores =
      torch::matmul(query, key.transpose(2, 3)) / std::sqrt(static_cast<double>(query.size(3)));
  const torch::Tensor later =
      torch::ones({length, length}, scores.options().dtype(torch::kBool)).triu(1);
  scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity()).softmax(-1);
  return torch::matmul(torch::dropout(scores, dropout, dropout > 0), value);
#endif
}

class Attention : public nn::Module {
 public:
  explicit Attention(const Gpt2Options& options)
      : heads_(options.heads),
        mix_(register_module(
            "c_attn", std::make_shared<Projection>(options.width, 3 * options.width, kSpread))),
        out_(register_module("c_proj",
                             std::make_shared<Projection>(
                                 options.width,
                                 options.width,
                                 kSpread / std::sqrt(2.0 * static_cast<double>(options.layers))))),
        dropout_(register_module("attn_dropout", nn::Dropout(options.dropout))) {}

  torch::Tensor forward(const torch::Tensor& input) const {
    const int64_t count = input.size(0);
    const int64_t length = input.size(1);
    const int64_t width = input.size(2);
    const auto parts =
        mix_->forward(input).view({count, length, 3, heads_, width / heads_}).unbind(2);
    const torch::Tensor seen = attend(parts[0].transpose(1, 2),
                                      parts[1].transpose(1, 2),
                                      parts[2].transpose(1, 2),
                                      dropout_->is_training() ? dropout_->options.p() : 0);
    return out_->forward(seen.transpose(1, 2).reshape({count, length, width}));
  }

  int64_t heads() const { return heads_; }
  models::FusedLinear mix() const { return mix_->parts(); }
  models::FusedLinear out() const { return out_->parts(); }

 private:
  int64_t heads_;
  std::shared_ptr<Projection> mix_;
  std::shared_ptr<Projection> out_;
  nn::Dropout dropout_;
};

// GPT-2 uses the tanh approximation of gelu; weights trained with it need it for exact results.
class FeedForward : public nn::Module {
 public:
  explicit FeedForward(const Gpt2Options& options)
      : in_(register_module(
            "c_fc", std::make_shared<Projection>(options.width, 4 * options.width, kSpread))),
        out_(register_module("c_proj",
                             std::make_shared<Projection>(
                                 4 * options.width,
                                 options.width,
                                 kSpread / std::sqrt(2.0 * static_cast<double>(options.layers))))) {
  }

  torch::Tensor forward(const torch::Tensor& input) const {
    return out_->forward(torch::gelu(in_->forward(input), "tanh"));
  }

  models::FusedLinear up() const { return in_->parts(); }
  models::FusedLinear down() const { return out_->parts(); }

 private:
  std::shared_ptr<Projection> in_;
  std::shared_ptr<Projection> out_;
};

const std::map<std::string, Gpt2Options>& sizes() {
  static const std::map<std::string, Gpt2Options> all = {
      {"tiny", {.layers = 2, .heads = 2, .width = 32, .context = 64}},
      {"124M", {}},
      {"355M", {.layers = 24, .heads = 16, .width = 1024}},
      {"774M", {.layers = 36, .heads = 20, .width = 1280}},
      {"1.5B", {.layers = 48, .heads = 25, .width = 1600}},
  };
  return all;
}

// The fused parts need these properties. Without them the model would silently compute in bf16.
void require_fp8(const Gpt2Options& options, bool drops) {
  constexpr int64_t kMultiple = 16;
  constexpr int64_t kWidest = 8192;
  constexpr int64_t kWidestHead = 128;
  const int64_t head = options.width / options.heads;
  std::string reason;
  if (drops) {
    reason = fmt::format("dropout {} is not supported", options.dropout);
  } else if (options.width % kMultiple != 0 || options.width > kWidest) {
    reason = fmt::format("width {} is not a multiple of 16 up to 8192", options.width);
  } else if (head % 8 != 0 || head > kWidestHead) {
    reason = fmt::format("head width {} is not a multiple of 8 up to 128", head);
  }
  if (!reason.empty()) {
    throw Error(ExitCode::Usage, "cannot compute this GPT-2 in fp8")
        .fact("reason", reason)
        .hint("--precision bf16");
  }
}

// Sets the model to evaluation mode and restores the previous mode in its destructor.
class Evaluating {
 public:
  explicit Evaluating(nn::Module& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~Evaluating() { model_.train(was_training_); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  nn::Module& model_;
  bool was_training_;
};

// Draws the next token from the top_k most probable ones (0: from all). A temperature of 0 or below
// takes the most probable one.
int64_t draw(const torch::Tensor& scores,
             const GenerateOptions& options,
             torch::Generator& generator) {
  if (options.temperature <= 0) {
    return scores.argmax().item<int64_t>();
  }
  const int64_t all = scores.size(0);
  const auto [top_scores, tokens] =
      scores.topk(options.top_k > 0 ? std::min(options.top_k, all) : all);
  const torch::Tensor probs = (top_scores / options.temperature).softmax(0);
  return tokens[torch::multinomial(probs, 1, false, generator)[0].item<int64_t>()].item<int64_t>();
}

}  // namespace

// A block with layer norm in front of each part (Radford et al. 2019): x + attention(norm(x)), then
// x + feed_forward(norm(x)). The stream x itself is never normalized before the last layer.
class Gpt2::Block : public nn::Module {
 public:
  explicit Block(const Gpt2Options& options)
      : first_(register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({options.width})))),
        attention_(register_module("attn", std::make_shared<Attention>(options))),
        second_(register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({options.width})))),
        feed_forward_(register_module("mlp", std::make_shared<FeedForward>(options))),
        dropout_(register_module("resid_dropout", nn::Dropout(options.dropout))) {}

  // Selects the fused kernels; null: operators of libtorch. `index` is the position of the block in
  // the model, which identifies its fp8 scales.
  void set_engine(const models::FusedEnginePtr& engine, int64_t index) {
    engine_ = engine;
    index_ = index;
  }

  torch::Tensor forward(const torch::Tensor& input) {
    if (engine_ != nullptr) {
      return models::fused_block(engine_,
                                 input,
                                 {.first = {first_->weight, first_->bias},
                                  .mix = attention_->mix(),
                                  .out = attention_->out(),
                                  .second = {second_->weight, second_->bias},
                                  .up = feed_forward_->up(),
                                  .down = feed_forward_->down(),
                                  .index = index_},
                                 attention_->heads());
    }
    const torch::Tensor middle = input + dropout_(attention_->forward(first_(input)));
    return middle + dropout_(feed_forward_->forward(second_(middle)));
  }

 private:
  nn::LayerNorm first_;
  std::shared_ptr<Attention> attention_;
  nn::LayerNorm second_;
  std::shared_ptr<FeedForward> feed_forward_;
  nn::Dropout dropout_;
  models::FusedEnginePtr engine_;
  int64_t index_ = 0;
};

struct Gpt2::Engine {
  torch::Device device;          // of the weights for which `fused` was created
  models::FusedEnginePtr fused;  // null: there are no fused kernels for these weights
};

Gpt2Options gpt2_options(const std::string& name) {
  static const std::map<std::string, std::string> others = {
      {"gpt2", "124M"}, {"gpt2-medium", "355M"}, {"gpt2-large", "774M"}, {"gpt2-xl", "1.5B"}};
  const auto other = others.find(name);
  const auto found = sizes().find(other == others.end() ? name : other->second);
  if (found == sizes().end()) {
    throw Error(ExitCode::Usage, fmt::format("unknown size of GPT-2: '{}'", name))
        .fact("available", "tiny, 124M, 355M, 774M, 1.5B, gpt2, gpt2-medium, gpt2-large, gpt2-xl")
        .hint("--size 124M");
  }
  return found->second;
}

std::vector<std::string> gpt2_names() {
  return {"tiny", "124M", "355M", "774M", "1.5B", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"};
}

Gpt2::Gpt2(const Gpt2Options& options) : options_(options) {
  if (options.width % options.heads != 0) {
    throw Error(
        ExitCode::Usage,
        fmt::format("cannot share {} features among {} heads", options.width, options.heads));
  }
  // Names of parameters are those of Hugging Face ("transformer.h.0.attn.c_attn.weight"), so that
  // weight files can be exchanged.
  const auto body = register_module("transformer", std::make_shared<nn::Module>());
  token_ = body->register_module("wte", nn::Embedding(options.vocabulary, options.width));
  position_ = body->register_module("wpe", nn::Embedding(options.context, options.width));
  const auto list = body->register_module("h", std::make_shared<nn::Module>());
  for (int64_t i = 0; i < options.layers; ++i) {
    blocks_.push_back(list->register_module(std::to_string(i), std::make_shared<Block>(options)));
  }
  norm_ = body->register_module("ln_f", nn::LayerNorm(nn::LayerNormOptions({options.width})));
  dropout_ = nn::Dropout(options.dropout);
  register_module("drop", dropout_);
  const torch::NoGradGuard no_grad;
  token_->weight.normal_(0, kSpread);
  position_->weight.normal_(0, kSpread);
}

torch::Tensor Gpt2::hidden(const torch::Tensor& tokens) {
  const int64_t length = tokens.size(1);
  if (length > options_.context) {
    throw Error(ExitCode::Usage,
                fmt::format("input of {} tokens exceeds the context length", length))
        .fact("maximum", std::to_string(options_.context), "the model");
  }
  const std::shared_ptr<Engine> found = find_engine();
  const models::FusedEnginePtr engine = found == nullptr ? nullptr : found->fused;
  torch::Tensor values;
  if (engine != nullptr) {
    models::begin_pass(engine,
                       token_->weight,
                       options_.layers,
                       models::fp8_is_on(),
                       torch::GradMode::is_enabled() && is_training());
    values = models::fused_embedding(tokens, token_->weight, position_->weight);
  } else {
    const torch::Tensor positions =
        torch::arange(length, torch::dtype(torch::kInt64).device(tokens.device()));
    values = dropout_(token_(tokens) + position_(positions));
  }
  int64_t index = 0;
  for (const auto& block : blocks_) {
    block->set_engine(engine, index++);
    values = options_.recompute ? recompute(*block, values) : block->forward(values);
  }
  return engine != nullptr ? models::fused_norm(values, {norm_->weight, norm_->bias})
                           : norm_(values);
}

// The fused kernels for this pass; null if they do not apply: with dropout, in another precision,
// or on another device. The engine is created again if the model has moved to another device.
std::shared_ptr<Gpt2::Engine> Gpt2::find_engine() {
  const bool drops = options_.dropout > 0 && is_training();
  if (models::fp8_is_on()) {
    models::note_fp8_is_used();
    require_fp8(options_, drops);
  }
  if (drops || !models::computes_in_bf16(token_->weight)) {
    return nullptr;
  }
  const torch::Tensor& weight = token_->weight;
  if (engine_ == nullptr || engine_->device != weight.device()) {
    engine_ = std::make_shared<Engine>(
        Engine{.device = weight.device(),
               .fused = models::make_fused_engine(weight, options_.width, options_.heads)});
  }
  return engine_->fused == nullptr ? nullptr : engine_;
}

torch::Tensor Gpt2::loss(const torch::Tensor& tokens, const torch::Tensor& targets) {
  const torch::Tensor seen = hidden(tokens);
  if (const auto engine = find_engine()) {
    return models::fused_token_loss(engine->fused, seen, token_->weight, targets);
  }
  const torch::Tensor given = scores(seen).flatten(0, 1);
  // 16-bit types have too few digits for log-sum-exp over 50257 classes.
  const torch::Tensor exact = given.element_size() < 4 ? given.to(torch::kFloat32) : given;
  // Every negative target means "no target", as in the fused kernel; ignore_index is one value
  // only.
  return nn::functional::cross_entropy(exact,
                                       targets.flatten().clamp_min(-1),
                                       nn::functional::CrossEntropyFuncOptions().ignore_index(-1));
}

// The output layer shares its weight with the token embedding.
torch::Tensor Gpt2::scores(const torch::Tensor& hidden) {
  return torch::linear(hidden, token_->weight);
}

torch::Tensor Gpt2::forward(const torch::Tensor& tokens) {
  return scores(hidden(tokens));
}

std::vector<std::pair<std::string, torch::Tensor>> as_gpt2_weights(
    std::vector<std::pair<std::string, torch::Tensor>> weights) {
  constexpr std::string_view kBody = "transformer.";
  std::vector<std::pair<std::string, torch::Tensor>> renamed;
  for (auto& [name, tensor] : weights) {
    // Files of Hugging Face also contain the causal mask and, under a second name, the shared
    // weight.
    const bool is_mask = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
    if (is_mask || name == "lm_head.weight") {
      continue;
    }
    renamed.emplace_back(name.starts_with(kBody) ? name : std::string(kBody) + name,
                         std::move(tensor));
  }
  return renamed;
}

std::vector<int64_t> generate(Gpt2& model,
                              std::vector<int64_t> prompt,
                              const GenerateOptions& options) {
  if (prompt.empty()) {
    throw Error(ExitCode::Usage, "cannot generate text from an empty prompt")
        .hint("a prompt that consists of Tokenizer::end_of_text()");
  }
  const torch::NoGradGuard no_grad;
  const Evaluating evaluating(model);
  const torch::Device device = model.parameters().front().device();
  // On the CPU: generators of GPUs give other numbers for the same seed.
  torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(options.seed);
  for (int64_t i = 0; i < options.count; ++i) {
    const auto length = static_cast<int64_t>(prompt.size());
    // A text longer than the context continues from its last `context` tokens. There is no cache of
    // keys and values: each token computes the whole context again.
    const int64_t first = std::max<int64_t>(0, length - model.options().context);
    const torch::Tensor seen =
        torch::tensor(std::vector<int64_t>(prompt.begin() + first, prompt.end()), torch::kInt64)
            .to(device);
    torch::Tensor scores = model.scores(model.hidden(seen.unsqueeze(0)).select(1, -1)).squeeze(0);
    scores = scores.to(torch::kCPU, torch::kFloat32);
    prompt.push_back(draw(scores, options, generator));
    if (prompt.back() == options.stop) {
      break;
    }
  }
  return prompt;
}

}  // namespace lockstep
