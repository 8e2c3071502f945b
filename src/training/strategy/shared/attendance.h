// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "lockstep/communicator.h"
#include "lockstep/strategy.h"

namespace lockstep::strategy {

// Start of a step, and uneven inputs (StrategyOptions::uneven): workers that run out of batches at
// different steps.
//
// With uneven inputs, all workers begin each step with an all-reduce of one flag per worker
// ("roll"), including those that have joined. It shows every worker which workers still train.
class Attendance {
 public:
  Attendance(Communicator& communicator, const StrategyOptions& options);

  // Must be called at the start of a step that this worker trains. Executes the roll, and
  // broadcasts the buffers of the first worker that trains.
  void begin_step(const torch::nn::Module& model);

  // Takes part in the steps of the others with `give_nothing` until no worker trains. Returns the
  // worker that has trained the most steps since the last such end; of several, the highest rank.
  // Throws an Error if uneven inputs are disabled.
  int go_along(const torch::nn::Module& model, const std::function<void()>& give_nothing);

  // Strategy::join(): calls go_along(), then copies the state of the last worker.
  int join(torch::nn::Module& model,
           torch::optim::Optimizer& optimizer,
           const std::function<void()>& give_nothing);

  // The lowest rank that trains the current step.
  int first_here() const { return first_here_; }

 private:
  // Returns false if no worker trains. `here`: whether this worker does.
  bool begin(const torch::nn::Module& model, bool here);
  // The number of workers that train this step.
  int roll(bool here);
  // Must be called after a roll without any worker.
  int last_to_join();

  Communicator& communicator_;
  bool is_uneven_;
  bool broadcasts_buffers_;
  int first_here_ = 0;
  int64_t steps_here_ = 0;
};

}  // namespace lockstep::strategy
