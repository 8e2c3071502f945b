// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "training/comm/thread_group.h"

namespace lockstep {

// Runs `body` on `size` ranks, which are threads of this process, and rethrows the first exception.
// Use EXPECT_ in the body, not ASSERT_.
inline void run_workers(int size, const std::function<void(Communicator&)>& body) {
  comm::run_thread_group(size, body);
}

}  // namespace lockstep
