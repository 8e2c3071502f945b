// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <torch/torch.h>
#include <vector>

#include "lockstep/callback.h"
#include "lockstep/dataset.h"
#include "lockstep/loss_scaling.h"
#include "lockstep/sampler.h"
#include "lockstep/schedule.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"

namespace lockstep {

// A program's own choices; each has a flag that overrides it.
struct TrainerOptions {
  int64_t epochs = 1;
  int64_t steps = 0;               // ends after this many optimizer steps if not 0
  int64_t global_batch = 64;       // samples of all workers together in one optimizer step
  int64_t accumulate = 1;          // micro-batches that a worker's part of a step is cut into
  double clip_norm = 0;            // 0: gradients are not clipped
  std::string precision = "fp32";  // fp32, bf16 or fp16: of what the model computes in
  std::string loss_scale = "";     // none, dynamic or a number; empty: dynamic with fp16, else none
  LossScaling loss_scaling = {};
  double ema = 0;  // decay of the averaged weights that are evaluated and saved; 0: none
  std::string schedule = "constant";  // constant, step (x0.1 after each third) or cosine
  int64_t warmup_steps = 0;
  double warmup_epochs = 0;  // the same in epochs
  Tail tail = Tail::Drop;    // what becomes of samples that do not fill the last global batch
  uint64_t seed = 1;
  int64_t validate_every = 0;        // steps; 0: after each epoch; -1: never
  int64_t checkpoint_every = 0;      // steps; 0: after each epoch; -1: never
  int keep_checkpoints = 3;          // beside the best by test accuracy, or test loss
  int64_t keep_checkpoints_for = 0;  // seconds; younger ones stay too
  bool checkpoint_async = true;      // written beside training; false: training waits
  int64_t evaluation_batch = 100;
  int loader_threads = 1;      // that make batches; -1: by the granted cores (LoaderOptions)
  double report_every = 5;     // seconds between lines where there is no terminal
  int64_t report_steps = 0;    // a line after so many steps if not 0, as steps_per_print
  bool report_phases = false;  // and where their time went, as wall_clock_breakdown
  StrategyOptions strategy = {};
};

// What came out; the same on every worker.
struct TrainResult {
  int64_t steps = 0;
  int64_t epochs = 0;
  double train_loss = 0;  // mean over the last epoch's samples
  std::optional<double> test_loss;
  std::optional<double> test_accuracy;
  std::optional<double> test_top5 = {};
  double samples_per_second = 0;  // all workers together, training only
  double seconds = 0;             // training and validation
  bool stopped_early = false;     // by a callback
  int64_t skipped_steps = 0;      // that the loss scale left out; they count as steps
};

// Trains a model over a data set, under whatever strategy the user chose.
//
// All workers make the same calls. One thread uses a Trainer.
class Trainer {
 public:
  Trainer(Session& session, const TrainerOptions& options);
  ~Trainer();

  // The program's choices with the user's flags over them.
  const TrainerOptions& options() const { return options_; }

  // Called during fit(), in the order of adding.
  void add(std::unique_ptr<Callback> callback);

  // Replaces the schedule that options and flags name.
  void set_schedule(const Schedule& schedule);

  // Trains `model`; `test` may be null. `loss` takes the model by its own type:
  // CrossEntropy(), or [](auto& model, const Batch& batch) { ... }.
  template <typename Model, typename Callable>
  TrainResult fit(Model& model,
                  torch::optim::Optimizer& optimizer,
                  const DatasetPtr& train,
                  const DatasetPtr& test,
                  Callable loss) {
    return fit_any(model, optimizer, train, test, loss_of<Model>(std::move(loss)));
  }

  // Mean loss and accuracy over every sample of `test` exactly once.
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
