// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/compat.h"
#include "lockstep/communicator.h"

namespace lockstep::comm {

// Where a group over a Communicator does its work: in the call, or on a thread of its own so that
// the caller computes meanwhile.
enum class Overlap { None, OwnThread };

// A process group of libtorch that sends each call to `communicator`, which must outlive it.
compat::ProcessGroupPtr make_process_group(Communicator& communicator, Overlap overlap);

}  // namespace lockstep::comm
