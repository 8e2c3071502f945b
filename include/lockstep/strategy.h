// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/checkpoint.h"
#include "lockstep/communicator.h"
#include "lockstep/compression.h"
#include "lockstep/horovod_options.h"
#include "lockstep/zero_options.h"

// Loss functions, and the strategies that combine the gradients of all workers. A program that uses
// the Trainer needs only a loss function:
//
//   trainer.fit(*net, *sgd, train, test, lockstep::CrossEntropy{.label_smoothing = 0.1});
//
// A custom training loop uses a Strategy directly:
//
//   const auto strategy = session.make_strategy();  // the one that -s selects
//   strategy->adopt(*net, *adam);
//   for (...) {
//     const Loss loss = strategy->accumulate(loss_function, batch, {.weight = weight});
//     strategy->step();
//   }
//   strategy->leave();
namespace lockstep {

// The result of a loss function: the mean loss over its batch and, optionally, one score per sample
// and class. The accuracy is computed from the scores; without scores there is no accuracy.
struct Loss {
  Loss() = default;
  // Implicit, so that a loss function can return a plain tensor.
  Loss(torch::Tensor mean_loss,
       torch::Tensor class_scores = {})  // NOLINT(google-explicit-constructor)
      : value(std::move(mean_loss)), scores(std::move(class_scores)) {}

  torch::Tensor value;
  torch::Tensor scores;
};

// Computes the loss of a model over a batch. It must use the model that it receives, not a captured
// one: a strategy may pass a replica.
using LossFunction = std::function<Loss(torch::nn::Module&, const Batch&)>;

// Converts a callable that takes the model by its own type into a LossFunction:
//
//   auto loss = loss_of<MyNet>([](MyNet& net, const Batch& batch) {
//     return torch::mse_loss(net.forward(batch.input), batch.target);
//   });
//
// The LossFunction throws std::bad_cast if it receives a model of another type.
template <typename Model, typename Callable>
LossFunction loss_of(Callable callable) {
  return [callable = std::move(callable)](torch::nn::Module& model, const Batch& batch) -> Loss {
    return callable(dynamic_cast<Model&>(model), batch);
  };
}

// The mean cross entropy between scores [N, C] and class indices int64 [N]. `label_smoothing` is
// the probability that is distributed evenly over all classes. Index -100 is ignored.
inline torch::Tensor mean_cross_entropy(const torch::Tensor& scores,
                                        const torch::Tensor& target,
                                        double label_smoothing = 0) {
  return torch::cross_entropy_loss(scores,
                                   target,
                                   /*weight=*/{},
                                   at::Reduction::Mean,
                                   /*ignore_index=*/-100,
                                   label_smoothing);
}

// The cross entropy of the scores of a classifier, for Trainer::fit. If the model has a method
// loss_and_scores(), as ImageClassifier does, this method computes it. Without state: any thread
// can call it.
struct CrossEntropy {
  // Probability that is distributed evenly over all classes during training. Evaluation always uses
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
    // log-sum-exp in a 16-bit type loses too much precision.
    const torch::Tensor exact = scores.element_size() < 4 ? scores.to(torch::kFloat32) : scores;
    return {mean_cross_entropy(exact, batch.target, share), scores};
  }
};

// The mean cross entropy of next-token prediction, for language models. Input and target are int64
// [N, T], where the target is the input shifted by one token; scores are [N, T, vocabulary]. If the
// model has a method loss(input, target), as Gpt2 does, this method computes it.
//
//   trainer.fit(*gpt2, *adamw, data.train, data.test, NextToken());
struct NextToken {
  template <typename Model>
  Loss operator()(Model& model, const Batch& batch) const {
    if constexpr (requires { model.loss(batch.input, batch.target); }) {
      return model.loss(batch.input, batch.target);
    }
    const torch::Tensor scores = model.forward(batch.input).flatten(0, 1);
    const torch::Tensor exact = scores.element_size() < 4 ? scores.to(torch::kFloat32) : scores;
    return mean_cross_entropy(exact, batch.target.flatten());
  }
};

// The position of a micro-batch in its step.
struct MicroBatch {
  // Weight of the mean loss of this micro-batch:
  //
  //   samples of the micro-batch * workers / samples of the global batch
  //
  // The average of the weighted gradients over all workers is then the gradient of the mean over
  // the global batch, even if the micro-batches differ in size.
  double weight = 1;
  // Whether this is the last micro-batch of the step. The exchange with the other workers starts
  // during its backward pass.
  bool last = true;
};

// What Strategy::step() does in addition to the update; the same on every worker.
//
//   const StepResult result = strategy->step({.clip_norm = 1.0, .wants_norm = true});
struct StepOptions {
  // Maximum norm of the entire gradient; 0: no clipping.
  double clip_norm = 0;
  // The factor by which the loss was multiplied through MicroBatch::weight. Gradients are divided
  // by it before they are clipped.
  double loss_scale = 1;
  // Skips the update if a gradient is not finite. Reads every gradient and waits for the GPU.
  bool check_finite = false;
  // Requests StepResult::norm. Reads every gradient and waits for the GPU.
  bool wants_norm = false;
  // Requests StepResult::late_norm on a GPU, which does not wait.
  bool wants_late_norm = false;
};

// The outcome of a step; the same on every worker.
struct StepResult {
  // Norm of the entire gradient before clipping; 0 if it was neither requested nor needed.
  double norm = 0;
  torch::Tensor late_norm = {};  // the norm as a GPU tensor that may still be in computation
  bool applied = true;           // false: a gradient was not finite and the step was skipped
};

// How workers combine their batches into one optimizer step: single, ddp, horovod, deepspeed or
// mirrored (docs/strategies.md). All strategies give the same result up to rounding. The example at
// the top shows the order of the calls.
//
// Programs select a strategy by name and never branch on it. All workers must make the same calls
// in the same order. Use a Strategy from one thread. Unless stated otherwise, a method throws an
// Error with ExitCode::TryAgain if a peer is lost.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // The name after -s, for example "ddp".
  virtual std::string_view name() const = 0;

  // Takes control of `model` and `optimizer`, which must outlive the Strategy. Call it once, before
  // all other methods. On return, every worker holds the parameters and buffers of rank 0. If the
  // models of the workers differ in names, shapes or types, throws an Error that names the first
  // difference and both ranks.
  virtual void adopt(torch::nn::Module& model, torch::optim::Optimizer& optimizer) = 0;

  // Adds the gradient of `loss` over `batch` to the pending step. Returns the loss of this worker,
  // detached. The exchange with the other workers may still be in progress.
  virtual Loss accumulate(const LossFunction& loss,
                          const Batch& batch,
                          const MicroBatch& share) = 0;

  // Applies one optimizer step with the average gradient of all workers and clears the gradient.
  // Requires a call of accumulate() with MicroBatch::last since the previous step.
  virtual StepResult step(const StepOptions& options) = 0;

  // step() without clipping, loss scale or norm.
  StepResult step() { return step(StepOptions{}); }

  // Declares that this worker has no more batches (uneven inputs). It takes part in the steps of
  // the other workers without a contribution to the sum until all workers have called join(). Then
  // every worker holds the parameters, buffers and optimizer state of the last worker to join.
  // Returns the rank of that worker. Requires StrategyOptions::uneven.
  virtual int join() = 0;

  // Returns the shards that the optimizer updates on this worker instead of the parameters, with
  // the names of the parameters. The list can be empty. Returns nothing if the optimizer updates
  // the parameters themselves.
  virtual std::optional<std::vector<TensorPiece>> updated() const { return std::nullopt; }

  // Updates the parameters after the caller has changed the shards of updated(). All workers must
  // call it.
  virtual void publish() {}

  // Makes the parameters of the model available to this thread outside of accumulate(), as long as
  // the result exists.
  [[nodiscard]] virtual std::shared_ptr<void> use_model() { return nullptr; }

  // Whether the use of a parameter is a collective. If so, all workers must use the same parameters
  // in the same order.
  virtual bool shares_use() const { return false; }

  // Ends the training and restores the form that model and optimizer had at adopt(), with their
  // current values. All workers must call it. No other method can be called afterwards.
  virtual void leave() {}

  // Returns the part of the training state that this worker holds, for a checkpoint. The parts of
  // all workers contain every element of every parameter, buffer and optimizer state exactly once.
  // The pieces are views where possible; copy them before the next step. Returns nothing if every
  // worker holds the entire state in the adopted model and optimizer.
  virtual std::optional<std::vector<TensorPiece>> pieces() const { return std::nullopt; }

  // Restores the training state from `source`, which can originate from another strategy and
  // another world size. Call it after adopt(), and only if pieces() returns a list. Throws an Error
  // that names the first tensor that does not fit.
  virtual void restore(const PieceSource& source);
};

// Options of all strategies.
//
//   session.make_strategy({.find_unused_parameters = true, .bucket_bytes = int64_t{50} << 20});
//
// The values here are those of the program; the command line overrides them. A strategy ignores the
// options that do not concern it, and throws an Error for those that it cannot honour.
struct StrategyOptions {
  // ---- behaviour

  // Allows parameters that do not contribute to the loss on some workers or in some steps. Costs a
  // traversal of the autograd graph in each step.
  bool find_unused_parameters = false;
  // Broadcasts the buffers of rank 0, such as batch norm statistics, before each step.
  bool broadcast_buffers = true;

  // ---- performance

  // Size of a gradient bucket. The first bucket is small so that the exchange starts early.
  int64_t first_bucket_bytes = int64_t{1} << 20;
  int64_t bucket_bytes = int64_t{25} << 20;
  // Declares that the same parameters contribute in the same order in every step, so that ddp
  // analyzes the graph only once.
  bool static_graph = false;
  // Exchanges gradients during backward. False: after it, to measure the effect of overlap.
  bool overlap = true;

  // ---- behaviour: uneven inputs, batch norm and compression

  // Allows workers to run out of batches at different steps and to call Strategy::join(). Costs one
  // small message per step.
  bool uneven = false;
  // Computes batch norm statistics over the global batch.
  bool sync_batchnorm = false;
  // Compression of gradients during the exchange (compression.h).
  Compression compression = Compression::None;
  // PowerSGD: rank of the matrices, and number of uncompressed steps before it starts.
  int powersgd_rank = 1;
  int64_t powersgd_start = 10;

  // ---- options of one strategy

  HorovodOptions horovod = {};  // -s horovod: horovod_options.h
  ZeroOptions zero = {};        // -s deepspeed: zero_options.h
};

// Creates the strategy with the name `name`. `communicator` must outlive it. Throws an Error that
// lists the names if there is no such strategy, or an Error if the strategy does not support the
// workers of `communicator`. A training program normally calls Session::make_strategy() instead.
std::unique_ptr<Strategy> make_strategy(std::string_view name,
                                        Communicator& communicator,
                                        const StrategyOptions& options = {});

}  // namespace lockstep
