// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// What a data set says of a model.
struct Evaluation {
  double loss = 0;
  std::optional<double> accuracy;   // if the loss function gives scores
  std::optional<double> top5 = {};  // of more than five classes: the target is one of the best five
  int64_t samples = 0;
};

// Where training stands when a callback is called.
struct TrainState {
  int64_t step = 0;   // optimizer steps done
  int64_t epoch = 0;  // epochs finished
  int64_t steps_per_epoch = 0;
  double learning_rate = 0;              // of the step just done
  double loss = 0;                       // mean over the gang since the last report
  std::optional<Evaluation> evaluation;  // the newest
};

// Hooks into Trainer::fit. Every worker calls them with the same state, so a callback that decides
// on the state alone decides alike everywhere. What it throws ends the training.
class Callback {
 public:
  virtual ~Callback() = default;

  virtual void on_step(const TrainState& /*state*/) {}
  virtual void on_evaluation(const TrainState& /*state*/) {}
  virtual void on_epoch(const TrainState& /*state*/) {}
  virtual void on_checkpoint(const TrainState& /*state*/, const std::string& /*directory*/) {}
  virtual void on_end(const TrainState& /*state*/) {}

  // Asked after each evaluation.
  virtual bool wants_to_stop() const { return false; }

  // What a checkpoint must keep of this callback, and the way back.
  virtual std::string state() const { return ""; }
  virtual void restore(const std::string& /*state*/) {}
};

// Ends the training when the test loss has not fallen for `patience` evaluations.
class EarlyStop final : public Callback {
 public:
  explicit EarlyStop(int patience) : patience_(patience) {}

  void on_evaluation(const TrainState& state) override;
  bool wants_to_stop() const override { return waited_ >= patience_; }
  std::string state() const override;
  void restore(const std::string& state) override;

 private:
  int patience_;
  int waited_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
};

// Remembers the learning rate of every step; the Trainer writes it to the run's events as well.
class LearningRateLog final : public Callback {
 public:
  void on_step(const TrainState& state) override { rates_.push_back(state.learning_rate); }
  const std::vector<double>& rates() const { return rates_; }

 private:
  std::vector<double> rates_;
};

}  // namespace lockstep
