// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// One process, no exchange: the reference that the others are measured against.
std::unique_ptr<Strategy> make_single(Communicator& communicator);

}  // namespace lockstep::strategy
