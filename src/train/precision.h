// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <torch/torch.h>

#include "lockstep/strategy.h"

namespace lockstep::train {

// `loss` computed in `precision` ("fp32", "bf16" or "fp16"): forward only, weights and gradients
// stay float32. Throws an Error where this libtorch cannot compute so on `device`.
LossFunction in_precision(const LossFunction& loss,
                          const std::string& precision,
                          torch::Device device);

}  // namespace lockstep::train
