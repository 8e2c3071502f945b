// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include "lockstep/muon.h"
#include "training/optim/state_key.h"

// The parts of Muon that its implementations share.
namespace lockstep::optim {

// The polynomial a x + b x^3 + c x^5 moves singular values between 0 and 1 close to 1 in five
// iterations. The coefficients are those of the authors, with the steepest slope at 0.
struct NewtonSchulz {
  static constexpr int kIterations = 5;
  static constexpr double kA = 3.4445;
  static constexpr double kB = -4.7750;
  static constexpr double kC = 2.0315;
  static constexpr double kNormEpsilon = 1e-7;
};

// The state of a parameter; creates it before the first step.
MuonParamState& muon_state(const torch::Tensor& parameter, bool is_matrix, StateMap& states);

// All singular values of the result are approximately 1. Computes in bfloat16 if `matrix` is on a
// GPU and not in float64.
torch::Tensor orthogonalize(const torch::Tensor& matrix);

// The factor of the update of a matrix: sqrt(max(1, rows / columns)).
double muon_scale(int64_t rows, int64_t columns);

}  // namespace lockstep::optim
