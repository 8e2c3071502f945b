// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cluster/placement.h"
#include "common/os/environment.h"
#include "training/comm/join.h"
#include "training/comm/stall_watch.h"
#include "training/train/options/flags.h"

namespace lockstep::train {

// How this worker joins the process group, and how long it waits before it reports a stall.
struct ProcessGroupChoice {
  cluster::Placement placement;
  comm::JoinOptions join;
  comm::StallOptions stall;
};

// The command line takes precedence over variables. These variables apply to every strategy:
//   HOROVOD_STALL_CHECK_TIME_SECONDS, HOROVOD_STALL_CHECK_DISABLE,
//   HOROVOD_STALL_SHUTDOWN_TIME_SECONDS
// and these only to -s horovod:
//   HOROVOD_CPU_OPERATIONS, otherwise HOROVOD_CONTROLLER   the transport if it is "auto"
//   HOROVOD_GLOO_IFACE, HOROVOD_GLOO_TIMEOUT_SECONDS
// The value "gloo" from lockstep's own launcher only means "not MPI" and does not select the
// transport. Throws an Error that names the invalid variable or option.
ProcessGroupChoice choose_process_group(const Flags& flags,
                                        const os::Environment& environment,
                                        cluster::Placement placement);

}  // namespace lockstep::train
