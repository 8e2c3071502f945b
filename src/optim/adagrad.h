// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

namespace lockstep::optim {

// libtorch's Adagrad has the state of every parameter from its constructor on, and cannot make a
// step without. Puts it there anew where the parameters of its groups are others now, or its state
// was cleared; does nothing to another optimizer.
void begin_adagrad(torch::optim::Optimizer& optimizer);

}  // namespace lockstep::optim
