// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <torch/torch.h>

#include "lockstep/strategy.h"
#include "train/flags.h"

namespace lockstep::train {

// `loss` computed in `precision` ("fp32", "bf16" or "fp16"): forward only, weights and gradients
// stay float32. Throws an Error where this libtorch cannot compute so on `device`; `file` is the
// one that asked for it, if one did.
LossFunction in_precision(const LossFunction& loss,
                          const std::string& precision,
                          torch::Device device,
                          const std::string& file = "");

// The ds_config.json that says fp16 or bf16; empty: none does.
std::string precision_source(const Flags& flags);

}  // namespace lockstep::train
