// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// Hooks into a training, and the values that they receive.
//
//   class PrintLoss final : public lockstep::Callback {
//     void on_epoch(const lockstep::TrainState& state) override {
//       std::printf("epoch %ld: loss %f\n", long(state.epoch), state.loss);
//     }
//   };
//   trainer.add(std::make_unique<PrintLoss>());
namespace lockstep {

// The result of the evaluation of a model on a data set; the same on every worker.
struct Evaluation {
  double loss = 0;                  // mean over all evaluated samples
  std::optional<double> accuracy;   // absent if the loss function returns no scores
  std::optional<double> top5 = {};  // top-5 accuracy; absent with five classes or fewer
  int64_t samples = 0;              // evaluated samples, each counted once over all workers
};

// The state of the training at the time of a callback.
struct TrainState {
  int64_t step = 0;   // completed optimizer steps
  int64_t epoch = 0;  // completed epochs
  int64_t steps_per_epoch = 0;
  double learning_rate = 0;              // of the last step
  double loss = 0;                       // mean over all workers since the previous report
  std::optional<Evaluation> evaluation;  // the most recent one
};

// Hooks into Trainer::fit. Override the hooks that you need; each does nothing by default.
//
// Every worker calls the hooks with the same state, in the same order. A callback that decides on
// this state alone therefore decides identically on every worker. A hook that communicates must
// do so on all workers.
//
// The hooks run on the thread that calls Trainer::fit. The Trainer owns its callbacks. An
// exception that leaves a hook ends the training.
class Callback {
 public:
  virtual ~Callback() = default;

  // Called after each optimizer step.
  virtual void on_step(const TrainState& /*state*/) {}

  // Called after each evaluation; state.evaluation is present.
  virtual void on_evaluation(const TrainState& /*state*/) {}

  // Called at the end of each epoch, and at the end of a training that ends within an epoch.
  virtual void on_epoch(const TrainState& /*state*/) {}

  // Called when the checkpoint in `directory` is complete on disk. `state` is the state that was
  // saved; training may have advanced since then because checkpoints are written asynchronously.
  virtual void on_checkpoint(const TrainState& /*state*/, const std::string& /*directory*/) {}

  // Called once when the training has ended normally, not after an exception.
  virtual void on_end(const TrainState& /*state*/) {}

  // Queried after each on_evaluation(); training ends if it returns true. All workers must return
  // the same value.
  virtual bool wants_to_stop() const { return false; }

  // state() returns the text that a checkpoint stores for this callback; empty for none.
  // restore() receives this text when training resumes. Callbacks are matched by the order in
  // which they were added.
  virtual std::string state() const { return ""; }
  virtual void restore(const std::string& /*state*/) {}
};

// Ends the training when the test loss has not fallen below its minimum for `patience` evaluations.
// The option --early-stop adds one to the Trainer.
//
//   trainer.add(std::make_unique<lockstep::EarlyStop>(3));
//
// A checkpoint keeps the best loss and the number of evaluations since then.
class EarlyStop final : public Callback {
 public:
  // `patience` must be at least 1.
  explicit EarlyStop(int patience) : patience_(patience) {}

  void on_evaluation(const TrainState& state) override;
  bool wants_to_stop() const override { return waited_ >= patience_; }
  std::string state() const override;

  // Throws Error (Io) if `state` is not a text that state() returned.
  void restore(const std::string& state) override;

 private:
  int patience_;
  int waited_ = 0;  // evaluations since the best one
  double best_ = std::numeric_limits<double>::infinity();
};

// Records the learning rate of every step. The Trainer also writes the learning rate to the
// events of the run, so this class is for programs that need it in memory.
//
//   auto log = std::make_unique<lockstep::LearningRateLog>();
//   const auto& rates = log->rates();  // valid as long as the Trainer
//   trainer.add(std::move(log));
class LearningRateLog final : public Callback {
 public:
  void on_step(const TrainState& state) override { rates_.push_back(state.learning_rate); }

  // One element per step of this process; steps before a resume are not included.
  const std::vector<double>& rates() const { return rates_; }

 private:
  std::vector<double> rates_;
};

}  // namespace lockstep
