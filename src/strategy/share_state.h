// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include "lockstep/communicator.h"

namespace lockstep::strategy {

// Gives every worker the parameters, buffers and optimizer state of worker `root`.
void share_state(Communicator& communicator,
                 torch::nn::Module& model,
                 torch::optim::Optimizer& optimizer,
                 int root = 0);

}  // namespace lockstep::strategy
