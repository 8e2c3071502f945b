// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <torch/types.h>
#include <utility>
#include <vector>

#include "lockstep/strategy.h"

namespace lockstep::train {

// The result of a step (StepRunner) on this worker.
struct StepOutcome {
  std::vector<std::pair<Loss, Batch>> losses;  // of this worker, one per micro-batch
  bool is_applied = true;                      // false: skipped because of an overflow
  double learning_rate = 0;
  std::optional<double> norm;  // of the gradient, if it is known
  torch::Tensor late_norm;     // likewise, while it is still on the GPU
};

}  // namespace lockstep::train
