// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include "lockstep/communicator.h"

namespace lockstep::strategy {

// Throws, on all workers, an Error that shows the first difference between the model of rank 0 and
// that of another rank. Compares names, shapes and types of parameters and buffers, and whether
// they are trained.
void require_same_model(Communicator& communicator, const torch::nn::Module& model);

}  // namespace lockstep::strategy
