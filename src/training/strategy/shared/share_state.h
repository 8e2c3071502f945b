// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>

#include "lockstep/communicator.h"

namespace lockstep::strategy {

// Copies parameters, buffers and optimizer state of rank `root` to all workers.
void share_state(Communicator& communicator,
                 torch::nn::Module& model,
                 torch::optim::Optimizer& optimizer,
                 int root = 0);

}  // namespace lockstep::strategy
