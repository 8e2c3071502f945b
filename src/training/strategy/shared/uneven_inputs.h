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
// (count_active()), including those that have joined. It shows every worker which workers are
// active, which means that they still train. A joined worker shadows the collectives of the active
// ones, as in torch.distributed.algorithms.Join.
class UnevenInputs {
 public:
  UnevenInputs(Communicator& communicator, const StrategyOptions& options);

  // Must be called at the start of a step that this worker trains. Exchanges the flags, and
  // broadcasts the buffers of the first worker that trains.
  void begin_step(const torch::nn::Module& model);

  // Takes part in the steps of the others with `shadow_step` until no worker trains. Returns the
  // worker that has trained the most steps since the last such end; of several, the highest rank.
  // Throws an Error if uneven inputs are disabled.
  int shadow_others(const torch::nn::Module& model, const std::function<void()>& shadow_step);

  // Strategy::join(): calls shadow_others(), then copies the state of the last worker.
  int join(torch::nn::Module& model,
           torch::optim::Optimizer& optimizer,
           const std::function<void()>& shadow_step);

  // The lowest rank that trains the current step.
  int first_active_rank() const { return first_active_rank_; }

 private:
  // Returns false if no worker trains. `is_active`: whether this worker does.
  bool begin(const torch::nn::Module& model, bool is_active);
  // The number of workers that train this step.
  int count_active(bool is_active);
  // Must be called after a count_active() that returned 0.
  int last_to_join();

  Communicator& communicator_;
  bool is_uneven_;
  bool broadcasts_buffers_;
  int first_active_rank_ = 0;
  int64_t steps_trained_ = 0;
};

}  // namespace lockstep::strategy
