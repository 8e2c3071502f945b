// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::contract {

// The strategies that -s accepts.
enum class StrategyKind { Single, Ddp, Horovod, Deepspeed, Mirrored };

std::string_view name_of(StrategyKind kind);

// All names, in the order of the help text.
std::vector<std::string> strategy_names();

// Throws an Error that lists all names and suggests the closest one if `name` is unknown.
StrategyKind parse_strategy(std::string_view name);

}  // namespace lockstep::contract
