// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <torch/optim.h>
#include <torch/types.h>
#include <unordered_set>
#include <vector>

#include "lockstep/communicator.h"
#include "training/strategy/zero/flat_parameter.h"

namespace lockstep::strategy::zero {

// Throws an Error if the optimizer already has state, which would belong to whole parameters.
void require_fresh(torch::optim::Optimizer& optimizer);

// Throws an Error if the optimizer cannot update pieces of parameters with these options.
void require_divisible(torch::optim::Optimizer& optimizer, const ZeroOptions& options);

// Makes an optimizer that was created for whole parameters update the pieces of this worker.
class PieceOptimizer {
 public:
  // Throws an Error if a parameter does not belong to any flat parameter. `flat_parameters` and
  // `channel` must outlive this.
  PieceOptimizer(torch::optim::Optimizer& optimizer,
                 const std::deque<FlatParameter>& flat_parameters,
                 int stage,
                 Communicator& channel);
  // After destruction the optimizer must not make a step, unless leave() was called.
  ~PieceOptimizer() = default;
  PieceOptimizer(const PieceOptimizer&) = delete;
  PieceOptimizer& operator=(const PieceOptimizer&) = delete;

  torch::optim::Optimizer& get() const { return optimizer_; }

  // Restores the original parameters of the optimizer and clears its state.
  void leave();

 private:
  void hand_over();
  torch::Tensor add_up_by_parameter(const std::vector<torch::Tensor>& pieces,
                                    const torch::Tensor& rows);
  std::vector<torch::Tensor> orthogonalize(const std::vector<torch::Tensor>& pieces,
                                           std::vector<torch::Tensor> updates);
  torch::Tensor gather_updates(const FlatParameter& flat,
                               const std::vector<torch::Tensor>& updates);

  torch::optim::Optimizer& optimizer_;
  const std::deque<FlatParameter>& flat_parameters_;
  Communicator& channel_;
  int stage_;
  std::vector<std::vector<torch::Tensor>> groups_;  // the original parameter groups
  std::unordered_set<const void*> matrices_;        // those that Muon orthogonalizes
};

}  // namespace lockstep::strategy::zero
