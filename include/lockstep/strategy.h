// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <torch/torch.h>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/checkpoint.h"
#include "lockstep/communicator.h"

namespace lockstep {

// What a loss function gives back: the mean loss over its batch, and, if it wants the accuracy to
// be counted, one score per sample and class.
struct Loss {
  Loss() = default;
  // A plain tensor is a loss without scores.
  Loss(torch::Tensor mean_loss,
       torch::Tensor class_scores = {})  // NOLINT(google-explicit-constructor)
      : value(std::move(mean_loss)), scores(std::move(class_scores)) {}

  torch::Tensor value;
  torch::Tensor scores;
};

// The loss of *a* model over a batch, not of *the* model: a strategy may call it on a replica.
using LossFunction = std::function<Loss(torch::nn::Module&, const Batch&)>;

// Makes a LossFunction of any callable that takes the model by its own type, such as
// [](auto& model, const Batch& batch) { ... model.forward(batch.input) ... }.
template <typename Model, typename Callable>
LossFunction loss_of(Callable callable) {
  return [callable = std::move(callable)](torch::nn::Module& model, const Batch& batch) -> Loss {
    return callable(dynamic_cast<Model&>(model), batch);
  };
}

// Cross entropy of a classifier's scores, ready for Trainer::fit. A model that has a
// loss_and_scores() of its own, as ImageClassifier does, is asked for that.
struct CrossEntropy {
  // This much of a target belongs to all classes alike while the model trains. What is evaluated is
  // the plain cross entropy.
  double label_smoothing = 0;

  template <typename Model>
  Loss operator()(Model& model, const Batch& batch) const {
    const double share = model.is_training() ? label_smoothing : 0;
    if constexpr (requires(std::pair<torch::Tensor, torch::Tensor> both) {
                    both = model.loss_and_scores(batch.input, batch.target, share);
                  }) {
      auto [loss, scores] = model.loss_and_scores(batch.input, batch.target, share);
      return {loss, scores};
    }
    torch::Tensor scores = model.forward(batch.input);
    // Sixteen bits are too few to take a logarithm of a sum in.
    const torch::Tensor exact = scores.element_size() < 4 ? scores.to(torch::kFloat32) : scores;
    const auto options = torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(share);
    return {torch::nn::functional::cross_entropy(exact, batch.target, options), scores};
  }
};

// The mean over all tokens of the cross entropy of what follows each of them, for a model of texts:
// input and target are int64 [N, T], the target one further on in the text, scores [N, T, tokens].
// A model that has a loss(input, target) of its own, as Gpt2 does, is asked for that.
struct NextToken {
  template <typename Model>
  Loss operator()(Model& model, const Batch& batch) const {
    if constexpr (requires { model.loss(batch.input, batch.target); }) {
      return model.loss(batch.input, batch.target);
    }
    const torch::Tensor scores = model.forward(batch.input).flatten(0, 1);
    const torch::Tensor exact = scores.element_size() < 4 ? scores.to(torch::kFloat32) : scores;
    return torch::nn::functional::cross_entropy(exact, batch.target.flatten());
  }
};

// One share of a worker's part of a global batch.
struct MicroBatch {
  // What the gradient of this share's mean loss counts for, so that the average over the gang of
  // all shares is the gradient of the mean over the global batch: samples of the share x workers /
  // samples of the global batch.
  double weight = 1;
  // The last share of its step: the exchange with the other workers begins during its backward.
  bool last = true;
};

struct StepOptions {
  // Clips the norm of all gradients together to this; 0: not at all.
  double clip_norm = 0;
  // The loss was multiplied by this (by way of MicroBatch::weight); gradients are divided by it
  // before they are clipped.
  double loss_scale = 1;
  // If a gradient is not a finite number, nothing is updated. Costs a look at every gradient, which
  // a GPU must wait for.
  bool check_finite = false;
  // Whether StepResult::norm shall be known. Costs a look at every gradient, and a GPU must be
  // waited for.
  bool wants_norm = false;
  // Whether StepResult::late_norm shall be there, where a GPU has it.
  bool wants_late_norm = false;
};

// What became of a step; the same on every worker.
struct StepResult {
  // Of the whole gradient before it was clipped; 0 if it was neither asked for nor needed.
  double norm = 0;
  torch::Tensor late_norm = {};  // the same, a number on a GPU, which was not waited for
  bool applied = true;           // false: a gradient was not finite, and the step was left out
};

// How a gang of workers turns its batches into one optimizer step.
//
// Chosen by name (-s), never by an `if` in client code. All workers of a gang make the same calls
// in the same order; one thread drives a Strategy.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // The name that the user types after -s, for example "ddp".
  virtual std::string_view name() const = 0;

  // Takes charge of `model` and `optimizer`, which must outlive the Strategy. On return every
  // worker holds the parameters and buffers of rank 0. Throws an Error that names the first
  // difference, and both ranks, if the workers' models differ in names, shapes or types.
  virtual void adopt(torch::nn::Module& model, torch::optim::Optimizer& optimizer) = 0;

  // Adds the gradient of `loss` over `batch` to the pending step. Returns the local loss,
  // detached; the exchange with the other workers may still be in flight.
  virtual Loss accumulate(const LossFunction& loss,
                          const Batch& batch,
                          const MicroBatch& share) = 0;

  // Applies one optimizer step with the gradient averaged over the gang, and clears it.
  virtual StepResult step(const StepOptions& options) = 0;

  StepResult step() { return step(StepOptions{}); }

  // This worker has no more batches, others may: goes along with their steps, giving nothing to the
  // sum, until all have joined. Then every worker holds the parameters, buffers and optimizer state
  // of the last one to join, whose rank is returned. Needs StrategyOptions::uneven.
  virtual int join() = 0;

  // The flat pieces of parameters, by their names, that the optimizer updates on this worker in
  // place of the parameters, which may be none; nothing: it updates the parameters themselves.
  virtual std::optional<std::vector<TensorPiece>> updated() const { return std::nullopt; }

  // After somebody has changed these pieces: lets the parameters follow. All workers call
  // it.
  virtual void publish() {}

  // While the result lives, this thread may use the model's parameters outside accumulate().
  [[nodiscard]] virtual std::shared_ptr<void> use_model() { return nullptr; }

  // Whether using a parameter is an exchange: all workers then use the same ones in the same order.
  virtual bool shares_use() const { return false; }

  // Training is over: gives model and optimizer back as they were adopted, with the values that
  // they have now. All workers call it; no other call may follow.
  virtual void leave() {}

  // What this worker holds of the training's state, for a checkpoint: with those of the other
  // workers every element of every parameter, buffer and optimizer state once. Views, not copies,
  // where possible: the caller copies them before the next step. Nothing: every worker holds
  // everything, in the model and the optimizer that were adopted.
  virtual std::optional<std::vector<TensorPiece>> pieces() const { return std::nullopt; }

  // The way back, after adopt(); called only where pieces() gives some. `source` may come from
  // another strategy and another number of workers. Throws an Error that names the first tensor
  // that does not fit.
  virtual void restore(const PieceSource& source);
};

// How gradients are made smaller on their way.
enum class Compression { None, Fp16, Bf16, PowerSgd };

Compression parse_compression(std::string_view name);
std::string_view name_of(Compression compression);

// What Horovod's model of exchange may be told; docs/strategies.md has the variables.
struct HorovodOptions {
  std::string reduction = "average";          // average, sum or adasum
  int64_t fusion_bytes = int64_t{128} << 20;  // 0: every tensor travels alone
  double cycle_ms = 1;
  int64_t cache_capacity = 1024;  // 0: no cache
  double predivide_factor = 1;    // gradients are divided by this before, by the rest after the sum
  std::string timeline = {};      // file of a Chrome trace; empty: none
  bool mark_cycles = false;
  double stall_warning = 10;  // seconds; 0: never
  double stall_shutdown = 0;  // seconds; 0: never
  bool autotune = false;
  std::string autotune_log = {};  // file; empty: none
  int autotune_warmup_samples = 3;
  int autotune_steps_per_sample = 10;
  int autotune_most_samples = 20;
  double autotune_noise = 0.8;
};

// What ZeRO may be told; docs/deepspeed.md has the keys of ds_config.json.
struct ZeroOptions {
  // 0: every worker holds everything. 1: each updates, and keeps the optimizer's state of, its
  // share of the parameters. 2: it also keeps only the gradients of its share. 3: it also keeps
  // only its share of the parameters themselves; they are gathered when they are used.
  int stage = 0;
  // Parameters are of this type; the optimizer updates float32 copies of them. Float: as they are.
  torch::ScalarType parameter_type = torch::kFloat32;
  // Gradients travel as this; Undefined: half as half, all else as float32 or wider.
  torch::ScalarType communication_type = torch::ScalarType::Undefined;
  int64_t bucket_elements = int64_t{25} << 18;  // gradients that travel together, stages 0 to 2
  // Stage 3. Smaller parameters stay whole on every worker.
  int64_t persistence_threshold = 100'000;
  int64_t prefetch_elements = 50'000'000;  // gathered ahead of their use; 0: none
  int64_t max_live_elements = 0;  // gathered at a time; 0: what is in use and what is prefetched
  // The optimizer's state and its copies of the parameters stay in main memory.
  bool offload_optimizer = false;
};

struct StrategyOptions {
  // Parameters that take no part in a loss on some workers or in some steps are allowed; costs a
  // walk over the graph in each step.
  bool find_unused_parameters = false;
  // Buffers, such as batch norm's averages, follow rank 0 before each step.
  bool broadcast_buffers = true;
  // Gradients travel in packets of this size; the first is small so that the exchange begins early.
  int64_t first_bucket_bytes = int64_t{1} << 20;
  int64_t bucket_bytes = int64_t{25} << 20;
  // The same parameters take part, in the same order, in every step: ddp looks once.
  bool static_graph = false;
  // Gradients travel while backward still runs; false: after it, to see what that costs.
  bool overlap = true;
  // Workers may run out of batches at different steps, and then call Strategy::join(). Costs one
  // small message in each step.
  bool uneven = false;
  // Batch norm takes its statistics over the whole global batch.
  bool sync_batchnorm = false;
  Compression compression = Compression::None;
  int powersgd_rank = 1;
  int64_t powersgd_start = 10;  // steps that are exchanged whole before PowerSGD begins
  HorovodOptions horovod = {};
  ZeroOptions zero = {};
};

// The strategy of that name. Throws an Error that lists the names if there is none, or if it cannot
// train this gang. `communicator` must outlive it.
std::unique_ptr<Strategy> make_strategy(std::string_view name,
                                        Communicator& communicator,
                                        const StrategyOptions& options = {});

}  // namespace lockstep
