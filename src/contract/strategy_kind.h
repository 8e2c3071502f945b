// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::contract {

// The names that may follow -s.
enum class StrategyKind { Single, Ddp, Horovod, Deepspeed, Mirrored };

std::string_view name_of(StrategyKind kind);

// Every name, in the order of the help text.
std::vector<std::string> strategy_names();

// Throws an Error that lists the names, and the closest one, if `name` is none of them.
StrategyKind parse_strategy(std::string_view name);

}  // namespace lockstep::contract
