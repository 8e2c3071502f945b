// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// Runs `body` on `size` threads of this process, each with a Communicator of the same process
// group.
//
// Returns when all have ended. If one throws, the next collective of the others throws too, and the
// first exception is rethrown here.
void run_thread_group(int size, const std::function<void(Communicator&)>& body);

}  // namespace lockstep::comm
