// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <torch/nn/module.h>
#include <torch/optim.h>

#include "lockstep/dataset.h"
#include "lockstep/schedule.h"
#include "lockstep/strategy.h"

namespace lockstep::train {

// The model, the data and the loss of a training.
struct Task {
  torch::nn::Module& model;
  torch::optim::Optimizer& optimizer;
  DatasetPtr train;
  DatasetPtr test;  // null: no evaluation
  LossFunction loss;
  std::optional<Schedule> schedule = {};  // of the program (Trainer::set_schedule())
};

}  // namespace lockstep::train
