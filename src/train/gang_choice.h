// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cluster/place.h"
#include "comm/join.h"
#include "comm/stall_watch.h"
#include "os/environment.h"
#include "train/flags.h"

namespace lockstep::train {

// How this worker joins its gang, and how long it waits before it complains.
struct GangChoice {
  cluster::Placement placement;
  comm::JoinOptions join;
  comm::StallOptions stall;
};

// Flags stand above variables. HOROVOD_STALL_CHECK_TIME_SECONDS, HOROVOD_STALL_CHECK_DISABLE and
// HOROVOD_STALL_SHUTDOWN_TIME_SECONDS count for every strategy; HOROVOD_CPU_OPERATIONS, else
// HOROVOD_CONTROLLER (the transport under "auto"), HOROVOD_GLOO_IFACE and
// HOROVOD_GLOO_TIMEOUT_SECONDS for -s horovod. "gloo" from our own launcher means no more than
// "not MPI". Throws an Error that names the variable or flag.
GangChoice choose_gang(const Flags& flags,
                       const os::Environment& environment,
                       cluster::Placement placement);

}  // namespace lockstep::train
