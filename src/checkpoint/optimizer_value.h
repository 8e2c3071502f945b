// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <torch/torch.h>

#include "lockstep/checkpoint.h"

// An optimizer's state as collect_optimizer gives it, in the two halves that a checkpoint of
// version 2 has: a description, and tensors.
namespace lockstep::checkpoint {

inline constexpr std::string_view kModelPrefix = "model.";
inline constexpr std::string_view kOptimizerPrefix = "optimizer.";
inline constexpr std::string_view kEmaPrefix = "ema.";
inline constexpr std::string_view kRandomPrefix = "rng.";

// {"kind": "Adam", "groups": [{"lr": 0.001, "betas": [0.9, 0.999], ..., "params": ["w", ...]}]}
std::string describe_value(const c10::IValue& value);

// The way back, without "state"; throws Error (Usage) where there is no optimizer in it.
c10::IValue parse_description(const std::string& description, std::string_view source);

// optimizer.NAME.KEY; a whole number is a tensor without dimensions.
NamedTensors state_tensors(const c10::IValue& value);

// Of a checkpoint of any version; empty: it has no optimizer.
std::string find_description(const CheckpointReader& reader);

}  // namespace lockstep::checkpoint
