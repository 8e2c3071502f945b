// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <torch/torch.h>
#include <vector>

#include "lockstep/communicator.h"
#include "strategy/zero_unit.h"

namespace lockstep::strategy::zero {

// Throws an Error if the optimizer has state, which is by whole parameters.
void require_fresh(torch::optim::Optimizer& optimizer);

// An optimizer made for whole parameters that goes on with this worker's pieces of them.
class PieceOptimizer {
 public:
  // Throws an Error if a parameter is in none of the units, which must outlive this, as must
  // `channel`.
  PieceOptimizer(torch::optim::Optimizer& optimizer,
                 const std::deque<Unit>& units,
                 int stage,
                 Communicator& channel);
  // The optimizer must not make a step afterwards, unless it was given back by leave().
  ~PieceOptimizer() = default;
  PieceOptimizer(const PieceOptimizer&) = delete;
  PieceOptimizer& operator=(const PieceOptimizer&) = delete;

  torch::optim::Optimizer& get() const { return optimizer_; }

  // Gives it the parameters back, without state.
  void leave();

 private:
  void hand_over();
  torch::Tensor add_up_by_parameter(const std::vector<torch::Tensor>& pieces,
                                    const torch::Tensor& rows);

  torch::optim::Optimizer& optimizer_;
  const std::deque<Unit>& units_;
  Communicator& channel_;
  std::vector<std::vector<torch::Tensor>> groups_;  // of the optimizer, as they came
};

}  // namespace lockstep::strategy::zero
