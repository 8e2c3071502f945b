// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// Runs `body` on `size` threads of this process, each with its own Communicator of one gang.
//
// Returns when all have ended. If one throws, the others' next collective throws too, and the first
// exception is rethrown here.
void run_thread_gang(int size, const std::function<void(Communicator&)>& body);

}  // namespace lockstep::comm
