// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <torch/torch.h>

#include "lockstep/strategy.h"
#include "training/train/options/flags.h"

namespace lockstep::train {

// Returns `loss` computed under autocast in `precision` ("fp32", "bf16" or "fp16"). This concerns
// forward only; weights and gradients stay float32. Throws an Error if this libtorch does not
// support the precision on `device`. `file` is the file that requested it, if there is one.
LossFunction in_precision(const LossFunction& loss,
                          const std::string& precision,
                          torch::Device device,
                          const std::string& file = "");

// Returns the ds_config.json that selects fp16 or bf16; empty if there is none.
std::string precision_source(const Flags& flags);

}  // namespace lockstep::train
