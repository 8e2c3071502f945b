// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include "lockstep/communicator.h"

namespace lockstep::strategy {

// Throws, on all workers alike, an Error that names the first difference between rank 0's model and
// another's: parameters and buffers, their names, shapes, types and whether they are trained.
void require_same_model(Communicator& communicator, const torch::nn::Module& model);

}  // namespace lockstep::strategy
