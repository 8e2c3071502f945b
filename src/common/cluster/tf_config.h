// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "common/contract/worker_env.h"
#include "common/os/environment.h"

namespace lockstep::cluster {

// The rank described by TF_CONFIG, the variable from which TensorFlow's MultiWorkerMirroredStrategy
// reads its cluster:
//   {"cluster": {"chief": ["h0:p"], "worker": ["h1:p", ...]},
//    "task": {"type": "worker", "index": 0}}
// The chief has rank 0, followed by the workers in order. Workers with the same host name share a
// node. The host and port of rank 0 are the master address. Nothing if the variable is absent or
// has no cluster. Throws an Error that names TF_CONFIG if it is invalid.
std::optional<contract::WorkerSpec> find_tf_config_worker(const os::Environment& environment);

}  // namespace lockstep::cluster
