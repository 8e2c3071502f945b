// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cluster/place.h"
#include "comm/compat.h"
#include "lockstep/communicator.h"
#include "lockstep/error.h"

namespace lockstep::comm {

struct StallOptions {
  // A worker that waits so long in one call asks who is missing; 0: there is no watch.
  double warning = 10;
  // A worker that waits so long for a missing one ends; 0: never.
  double shutdown = 0;
};

// Why a gang's calls failed, learnt from all workers.
struct Explanation {
  Error error;
  bool speaks = false;  // this worker is the one to say so
};

// Watches, on a thread of its own, how long this worker is inside one call. Tells the other workers
// where it is, through the gang's store and at most every two seconds, and reads what they tell
// only when it has waited too long. One worker then says for the whole gang who is missing.
//
// The workers' clocks are compared: where they differ, so do the times in messages.
class StallWatch {
 public:
  virtual ~StallWatch() = default;

  // After an exception: ends the watching and asks the others for a few seconds whether the workers
  // made different calls. Nothing if they did not, or if this worker failed outside a call.
  virtual std::optional<Explanation> explain() = 0;
};

// Null for a gang of one and where the options say so. `store` is the one by which the workers met;
// null under MPI, where rank 0 serves another one. All workers of the gang call it.
std::unique_ptr<StallWatch> watch_for_stalls(Communicator& communicator,
                                             const compat::StorePtr& store,
                                             const contract::WorkerPlace& place,
                                             const StallOptions& options);

}  // namespace lockstep::comm
