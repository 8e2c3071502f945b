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

// Names of the strategies for several workers, for job descriptions.
std::vector<std::string> distributed_strategy_names();

// Names of the strategies that itwinai compares in a sweep, in its order.
std::vector<std::string> itwinai_strategy_names();

// Properties that the launcher needs. Names can be unknown, such as in the events of other
// programs: these have no ZeRO stage.
bool has_zero_stage(std::string_view name);
bool supports_py_spy(std::string_view name);

// Throws an Error that lists all names and suggests the closest one if `name` is unknown.
StrategyKind parse_strategy(std::string_view name);

}  // namespace lockstep::contract
