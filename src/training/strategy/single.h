// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// -s single: one process without communication, the reference for all other strategies.
std::unique_ptr<Strategy> make_single(Communicator& communicator);

}  // namespace lockstep::strategy
