// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::contract {

// Whether the OOM killer of the kernel ended a worker.
enum class OutOfMemory {
  No,
  Perhaps,  // an OOM kill somewhere on the machine, or no counter is available
  Yes,      // an OOM kill in the cgroup of the run
};

}  // namespace lockstep::contract
