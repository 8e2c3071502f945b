// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <vector>

#include "lockstep/callback.h"
#include "lockstep/dataset.h"
#include "lockstep/loss_scaling.h"
#include "lockstep/sampler.h"
#include "lockstep/schedule.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"

namespace lockstep {

// The program's own values for a training. The command line overrides most of them; `program
// --help` lists its options. The names of the command line options are given where they differ.
//
//   lockstep::Trainer trainer(session, {.epochs = 90,
//                                       .global_batch = 256,
//                                       .schedule = "cosine",
//                                       .warmup_epochs = 5});
struct TrainerOptions {
  // ---- behaviour: length and batch

  int64_t epochs = 1;
  // Maximum number of optimizer steps; 0: no limit other than the epochs.
  int64_t steps = 0;
  // Samples of all workers in one optimizer step. Each worker splits its part of it into
  // `accumulate` micro-batches. The split does not change the result.
  int64_t global_batch = 64;
  int64_t accumulate = 1;

  // ---- behaviour: numerics (docs/numerics.md)

  // Maximum norm of the gradient (--clip); 0: no clipping.
  double clip_norm = 0;
  // Precision of the computation: fp32, bf16, fp16, or fp8 for GPT-2 on a GPU.
  std::string precision = "fp32";
  // none, dynamic or a number; empty: dynamic for fp16, otherwise none.
  std::string loss_scale = "";
  LossScaling loss_scaling = {};
  // Decay of the moving average of the weights, which is then evaluated and saved; 0: no average.
  double ema = 0;

  // ---- behaviour: learning rate and data

  // constant, step (x0.1 after each third of the training) or cosine.
  std::string schedule = "constant";
  // Length of the linear warm-up. The two values are added; --warmup replaces both.
  int64_t warmup_steps = 0;
  double warmup_epochs = 0;
  // Treatment of samples that do not fill the last global batch of an epoch.
  Tail tail = Tail::Drop;
  // Seed of the initial weights, the sample order and dropout.
  uint64_t seed = 1;

  // ---- behaviour: evaluation and checkpoints

  // Steps between two evaluations and between two checkpoints; 0: after each epoch; -1: never.
  int64_t validate_every = 0;
  int64_t checkpoint_every = 0;
  // Number of checkpoints to keep, in addition to the one with the lowest test loss (--keep).
  int keep_checkpoints = 3;
  // Also keeps all checkpoints that are younger than this, in seconds (--keep-for).
  int64_t keep_checkpoints_for = 0;

  // ---- performance

  // Writes checkpoints during training; false: training waits until they are on disk.
  bool checkpoint_async = true;
  // Samples of a worker in one evaluation step.
  int64_t evaluation_batch = 100;
  // Threads that prepare batches; -1: from the number of allocated cores (LoaderOptions).
  int loader_threads = 1;

  // ---- output

  // Seconds between progress lines if the output is not a terminal.
  double report_every = 5;
  // Steps between lines like those of DeepSpeed's steps_per_print; 0: no such lines.
  int64_t report_steps = 0;
  // Adds the time of each phase to these lines, like DeepSpeed's wall_clock_breakdown.
  bool report_phases = false;

  StrategyOptions strategy = {};
};

// The result of a training; the same on every worker.
struct TrainResult {
  int64_t steps = 0;
  int64_t epochs = 0;
  double train_loss = 0;  // mean over the samples of the last epoch
  std::optional<double> test_loss;
  std::optional<double> test_accuracy;
  std::optional<double> test_top5 = {};
  double samples_per_second = 0;  // of all workers, excluding validation and checkpoints
  double seconds = 0;             // training and validation
  bool stopped_early = false;     // by a callback
  int64_t skipped_steps = 0;      // skipped because of an overflow; they count as steps
};

// Trains a model on a data set under the strategy that the user selects.
//
//   lockstep::Trainer trainer(session, {.epochs = 10, .global_batch = 256});
//   trainer.add(std::make_unique<lockstep::EarlyStop>(3));
//   const auto result = trainer.fit(*net, *sgd, train, test, lockstep::CrossEntropy());
//
// A Trainer resumes from checkpoints, evaluates, writes checkpoints and events, prints progress and
// handles SIGTERM. All workers must make the same calls. Use a Trainer from one thread. It must not
// outlive the Session.
class Trainer {
 public:
  // Combines `options` with the command line and a ds_config.json. Throws an Error if a value is
  // invalid or if options conflict.
  Trainer(Session& session, const TrainerOptions& options);
  ~Trainer();

  // The options in effect: those of the program, overridden by the command line.
  const TrainerOptions& options() const { return options_; }

  // Adds a callback for fit(). Callbacks are called in the order in which they were added.
  void add(std::unique_ptr<Callback> callback);

  // Replaces the schedule of options and command line. A scheduler in ds_config.json takes
  // precedence.
  void set_schedule(const Schedule& schedule);

  // Trains `model` and returns the result. `test` can be null; there is then no evaluation. `loss`
  // takes the model by its own type: CrossEntropy(), or
  // [](auto& model, const Batch& batch) { ... }. It must not refer to `model` directly, because a
  // strategy may call it with a replica.
  //
  // All arguments must exist until fit() returns. Throws an Error if a checkpoint does not fit the
  // model, if the loss is not finite, or if a peer is lost. On SIGTERM or SIGINT, writes a
  // checkpoint and throws; run() then returns TryAgain or Interrupted. With --verify-strategies,
  // does not return: see verify.h.
  template <typename Model, typename Callable>
  TrainResult fit(Model& model,
                  torch::optim::Optimizer& optimizer,
                  const DatasetPtr& train,
                  const DatasetPtr& test,
                  Callable loss) {
    return fit_any(model, optimizer, train, test, loss_of<Model>(std::move(loss)));
  }

  // Returns the mean loss and the accuracy over all samples of `test`, each counted exactly once
  // over all workers. All workers must call it with a complete model. Throws an Error if no sample
  // can be read.
  template <typename Model, typename Callable>
  Evaluation evaluate(Model& model, const DatasetPtr& test, Callable loss) {
    return evaluate_any(model, test, loss_of<Model>(std::move(loss)));
  }

 private:
  TrainResult fit_any(torch::nn::Module& model,
                      torch::optim::Optimizer& optimizer,
                      const DatasetPtr& train,
                      const DatasetPtr& test,
                      const LossFunction& loss);
  Evaluation evaluate_any(torch::nn::Module& model,
                          const DatasetPtr& test,
                          const LossFunction& loss);

  Session& session_;
  TrainerOptions options_;
  std::optional<Schedule> schedule_;
  std::vector<std::unique_ptr<Callback>> callbacks_;
};

}  // namespace lockstep
