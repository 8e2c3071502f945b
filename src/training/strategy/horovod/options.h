// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/os/environment.h"
#include "lockstep/strategy.h"

namespace lockstep::strategy::horovod {

// Overrides `options` with the variables of Horovod. Throws an Error that names a variable with an
// invalid value.
HorovodOptions with_environment(HorovodOptions options, const os::Environment& environment);

// Variables that are set and known to Horovod 0.28, but have no effect here.
std::vector<std::string> ignored_variables(const os::Environment& environment);

// Throws an Error for invalid options: an unknown reduction, PowerSGD, Adasum with a number of
// workers that is not a power of two, numbers below their minimum.
void require_sense(const StrategyOptions& options, int workers);

}  // namespace lockstep::strategy::horovod
