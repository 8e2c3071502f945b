// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <torch/torch.h>

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// The type that gradients travel in; nothing: their own.
std::optional<torch::ScalarType> wire_type(Compression compression);

}  // namespace lockstep::strategy
