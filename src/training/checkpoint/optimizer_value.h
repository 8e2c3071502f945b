// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <torch/types.h>

#include "lockstep/checkpoint.h"

// The result of collect_optimizer(), split as in a checkpoint of version 2: a description as JSON,
// and tensors.
namespace lockstep::checkpoint {

inline constexpr std::string_view kModelPrefix = "model.";
inline constexpr std::string_view kOptimizerPrefix = "optimizer.";
inline constexpr std::string_view kEmaPrefix = "ema.";
inline constexpr std::string_view kRandomPrefix = "rng.";

// {"kind": "Adam", "groups": [{"lr": 0.001, "betas": [0.9, 0.999], ..., "params": ["w", ...]}]}
std::string describe_value(const c10::IValue& value);

// The inverse, without "state"; throws Error (Usage) if `json` describes no optimizer.
c10::IValue parse_description(const std::string& description, std::string_view source);

// Tensors named optimizer.NAME.KEY; an integer becomes a tensor without dimensions.
NamedTensors state_tensors(const c10::IValue& value);

// The description in a checkpoint of any version; empty: it has no optimizer.
std::string find_description(const CheckpointReader& reader);

}  // namespace lockstep::checkpoint
