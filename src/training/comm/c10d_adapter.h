// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/communicator.h"
#include "training/comm/compat.h"

namespace lockstep::comm {

// Where a process group over a Communicator executes its calls: in the calling thread, or on a
// thread of its own, so that the caller can compute in the meantime.
enum class Overlap { None, OwnThread };

// A c10d process group that forwards each call to `communicator`, which must outlive it.
compat::ProcessGroupPtr make_process_group(Communicator& communicator, Overlap overlap);

}  // namespace lockstep::comm
