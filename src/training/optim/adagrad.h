// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/optim.h>
#include <torch/types.h>

namespace lockstep::optim {

// Adagrad of libtorch creates the state of all parameters in its constructor and cannot make a step
// without it. Creates the state again after the parameters of its groups were replaced or the state
// was cleared. Does nothing for other optimizers.
void begin_adagrad(torch::optim::Optimizer& optimizer);

}  // namespace lockstep::optim
