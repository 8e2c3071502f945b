// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/compat.h"
#include "contract/worker_env.h"
#include "lockstep/communicator.h"

namespace lockstep::comm {

// A Communicator that can lend libtorch the process group that it is made of.
class LendsProcessGroup {
 public:
  virtual ~LendsProcessGroup() = default;
  virtual compat::ProcessGroupPtr process_group() const = 0;
};

// Whether this build has the gloo transport (libtorch's wheels ship none of its headers).
bool has_gloo();

// Joins the gang over c10d's Gloo. The interface is the place's; without one it is loopback on one
// node, else the interface of the route to master_addr. Throws an Error if it does not exist.
std::unique_ptr<Communicator> join_gloo(const compat::StorePtr& store,
                                        const contract::WorkerPlace& place,
                                        std::chrono::milliseconds timeout);

// The group that libtorch's reducer needs: the communicator's own if it has one, else one that
// sends each call to `communicator`, which must outlive it.
compat::ProcessGroupPtr process_group_over(Communicator& communicator);

}  // namespace lockstep::comm
