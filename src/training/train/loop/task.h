// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include "lockstep/dataset.h"
#include "lockstep/strategy.h"

namespace lockstep::train {

// The model, the data and the loss of a training.
struct Task {
  torch::nn::Module& model;
  torch::optim::Optimizer& optimizer;
  DatasetPtr train;
  DatasetPtr test;  // null: no evaluation
  LossFunction loss;
};

}  // namespace lockstep::train
