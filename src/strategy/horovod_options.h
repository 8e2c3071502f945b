// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/strategy.h"
#include "os/environment.h"

namespace lockstep::strategy::horovod {

// The options with Horovod's own variables laid over them. Throws an Error that names the variable
// whose value makes no sense.
HorovodOptions with_environment(HorovodOptions options, const os::Environment& environment);

// Variables of Horovod's that are set, that Horovod 0.28 knows, and that mean nothing here.
std::vector<std::string> ignored_variables(const os::Environment& environment);

// Throws an Error for what cannot be: an unknown reduction, PowerSGD, Adasum on a number of workers
// that is no power of two, numbers below their least.
void require_sense(const StrategyOptions& options, int workers);

}  // namespace lockstep::strategy::horovod
