// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "contract/worker_env.h"
#include "os/environment.h"

namespace lockstep::cluster {

// The place that TF_CONFIG describes, the variable by which TensorFlow's
// MultiWorkerMirroredStrategy learns its cluster:
//   {"cluster": {"chief": ["h0:p"], "worker": ["h1:p", ...]},
//    "task": {"type": "worker", "index": 0}}
// The chief comes first, then the workers in their order. Workers of one host name share a node.
// Rank 0's host and port are where the gang meets. Nothing when the variable is absent or names no
// cluster. Throws an Error that names TF_CONFIG where it does not make sense.
std::optional<contract::WorkerPlace> find_tf_config_place(const os::Environment& environment);

}  // namespace lockstep::cluster
