// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <torch/types.h>

#include "lockstep/compression.h"

namespace lockstep::strategy {

// Type of gradients in messages; nullopt: their own type.
std::optional<torch::ScalarType> wire_type(Compression compression);

}  // namespace lockstep::strategy
