// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <torch/torch.h>
#include <vector>

#include "lockstep/checkpoint.h"
#include "strategy/zero_unit.h"

namespace lockstep::strategy::zero {

// A training that is cut up, as far as a checkpoint is concerned.
struct State {
  const torch::nn::Module& model;
  torch::optim::Optimizer& optimizer;  // of the units' pieces
  const std::deque<Unit>& units;
};

// What this worker answers for: its share of each unit with the optimizer's state of it; rank 0
// also whatever is in no unit.
std::vector<TensorPiece> collect_state(const State& state, int rank);

// Reads this worker's share. Frozen parameters and buffers that every worker holds are read whole.
// Throws an Error that names the first tensor that differs, and then changes nothing.
void restore_state(const State& state, const PieceSource& source);

}  // namespace lockstep::strategy::zero
