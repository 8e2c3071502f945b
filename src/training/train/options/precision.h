// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <torch/types.h>

#include "lockstep/strategy.h"
#include "training/train/options/flags.h"

namespace lockstep::train {

// Returns `loss` computed under autocast in `precision` ("fp32", "bf16", "fp16" or "fp8"). This
// concerns forward only; weights and gradients stay float32. With fp8, models with fp8 kernels
// compute their matrix products in fp8, in forward and backward, and all other operations use bf16.
// The first call throws an Error if the model has no fp8 kernels. Throws an Error if this libtorch
// or this GPU does not support the precision on `device`. `file` is the file that requested it, if
// there is one.
LossFunction in_precision(const LossFunction& loss,
                          const std::string& precision,
                          torch::Device device,
                          const std::string& file = "");

// Returns the ds_config.json that selects fp16 or bf16; empty if there is none.
std::string precision_source(const Flags& flags);

}  // namespace lockstep::train
