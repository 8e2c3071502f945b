// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/gpt2_training.h"

#include <cmath>
#include <fmt/format.h>

#include "common/os/files.h"
#include "lockstep/checkpoint.h"
#include "lockstep/error.h"
#include "lockstep/gpt2.h"
#include "lockstep/optimizer.h"

namespace lockstep::bench {
namespace {

constexpr int64_t kBatches = 4;  // repeated, so that the loss falls
constexpr uint64_t kSeed = 1;

// A sequence of T + 1 tokens gives T inputs and T targets, shifted by one.
std::vector<Batch> cut(const torch::Tensor& tokens, torch::Device device) {
  std::vector<Batch> batches;
  for (int64_t i = 0; i < tokens.size(0); ++i) {
    const torch::Tensor all = tokens[i];
    const int64_t length = all.size(1) - 1;
    batches.push_back({.input = all.narrow(1, 0, length).contiguous().to(device),
                       .target = all.narrow(1, 1, length).contiguous().to(device)});
  }
  return batches;
}

}  // namespace

// Token n has a probability of about 1 / n, like the words of a natural language (Zipf's law).
// Inverse transform sampling: exp(u * log V) for uniform u has a density proportional to 1 / n.
// Uniform tokens would make the embedding gradients unrealistically spread out.
torch::Tensor draw_tokens(const Gpt2BenchOptions& options, int64_t vocabulary) {
  auto generator = at::detail::createCPUGenerator(kSeed);
  const torch::Tensor chance = torch::rand(
      {kBatches, options.batch, options.context + 1}, generator, torch::dtype(torch::kFloat64));
  const double reach = std::log(static_cast<double>(vocabulary));
  return chance.mul(reach).exp().floor().sub(1).clamp(0, vocabulary - 1).to(torch::kInt64);
}

// The file of write_tokens() in gpt2.cpp: int64 in host byte order, [batches, N, T + 1], no header.
// Its size is the only check that --batch and --context are those with which it was written; other
// values whose product fits give other sequences, but valid ones.
torch::Tensor read_tokens(const Gpt2BenchOptions& options, int64_t vocabulary) {
  const os::InputFile file(options.tokens);
  const auto batch_bytes =
      static_cast<size_t>(options.batch * (options.context + 1)) * sizeof(int64_t);
  if (file.size() == 0 || file.size() % batch_bytes != 0) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot train on {}: it has another size", options.tokens.string()))
        .fact("expected",
              fmt::format("a multiple of {} bytes, {} x {} 64-bit integers",
                          batch_bytes,
                          options.batch,
                          options.context + 1))
        .fact("found", fmt::format("{} bytes", file.size()))
        .hint("use the --batch and --context with which the file was written");
  }
  const auto batches = static_cast<int64_t>(file.size() / batch_bytes);
  torch::Tensor tokens = torch::empty({batches, options.batch, options.context + 1}, torch::kInt64);
  file.read(0, tokens.data_ptr(), tokens.nbytes());
  if (tokens.min().item<int64_t>() < 0 || tokens.max().item<int64_t>() >= vocabulary) {
    throw Error(
        ExitCode::Usage,
        fmt::format("{} contains token ids outside the vocabulary", options.tokens.string()))
        .fact("vocabulary", fmt::format("0 to {}", vocabulary - 1));
  }
  return tokens;
}

// Weight decay and betas are those of GPT-3 (Brown et al. 2020, appendix B), as in nanoGPT and
// llm.c, and the same as in benchmarks/peers/gpt2.py. The initial weights are saved before the
// model moves to the device, so that the peer can load them without it.
TimedTraining make_training(Session& session,
                            const Gpt2BenchOptions& options,
                            const torch::Tensor& tokens,
                            const LossFunction& loss,
                            int64_t steps) {
  Gpt2Options model = gpt2_options(options.size);
  model.recompute = options.recompute;
  const auto net = std::make_shared<Gpt2>(model);
  if (!options.weights.empty()) {
    apply_model(*net, as_gpt2_weights(load_weights(options.weights)), options.weights.string());
  }
  if (!options.save_weights.empty()) {
    lockstep::save_weights(options.save_weights, collect_model(*net));
  }
  net->to(session.device());
  net->train();
  auto optimizer =
      session.make_optimizer(net->parameters(),
                             {.name = options.optimizer,
                              .lr = options.lr.value_or(options.optimizer == "muon" ? 0.02 : 6e-4),
                              .weight_decay = 0.1,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .matrices = hidden_matrices(*net)});  // for muon
  return {session, net, std::move(optimizer), loss, cut(tokens, session.device()), steps};
}

}  // namespace lockstep::bench
