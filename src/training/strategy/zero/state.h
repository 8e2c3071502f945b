// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <vector>

#include "lockstep/checkpoint.h"
#include "training/strategy/zero/flat_parameter.h"

namespace lockstep::strategy::zero {

// The partitioned state of a training, for checkpoints.
struct State {
  const torch::nn::Module& model;
  torch::optim::Optimizer& optimizer;  // updates the pieces of the flat parameters
  const std::deque<FlatParameter>& flat_parameters;
};

// The tensors that this worker saves: its shard of each flat parameter with the optimizer state.
// Rank 0 also saves everything that does not belong to a flat parameter.
std::vector<TensorPiece> collect_state(const State& state, int rank);

// Reads the shard of this worker. Frozen parameters and buffers that every worker holds are read
// whole. Throws an Error that names the first different tensor, before anything is changed.
void restore_state(const State& state, const PieceSource& source);

}  // namespace lockstep::strategy::zero
