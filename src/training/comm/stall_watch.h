// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "common/cluster/placement.h"
#include "lockstep/communicator.h"
#include "lockstep/error.h"
#include "training/comm/compat.h"

namespace lockstep::comm {

struct StallOptions {
  // Seconds in one call after which a worker reports the missing ranks; 0 disables the watch.
  double warning = 10;
  // Seconds of waiting for a missing rank after which a worker exits; 0: never.
  double shutdown = 0;
};

// What a worker has to report when it ends.
enum class Ending {
  Mistake,     // the workers made different calls, or one is missing: all find the same error
  OwnFailure,  // an error of this worker
  LostPeer,    // a consequence of the end of another worker
};

// Watches, on a thread of its own, how long this worker stays inside one call.
//
// Protocol, through the c10d store and under the prefix "lockstep/watch/ATTEMPT":
//
//   key      writer             content
//   RANK     that rank          its position (encode() in stall_report.h), when it has changed, at
//                               most every two seconds; while it waits in a call, repeatedly
//   word     compareSet         time and rank of the last warning; elects one rank per period
//   report   add                counter; the rank that gets 1 prints its mistake or failure
//   lost     add                counter; the rank that gets 1 prints that it lost a peer
//   ended    add                number of workers that have claimed a report
//
// A worker reads the positions of the others only after it has waited for longer than the limit. In
// normal operation the store therefore sees one small write per worker every two seconds and no
// reads. One worker reports for all.
//
// Times of different workers are compared, so messages are only as exact as their clocks agree.
class StallWatch {
 public:
  virtual ~StallWatch() = default;

  // To be called after an exception. Stops the watch and asks the others, at least once and for at
  // most `patience`, whether the workers made different calls. Returns nullopt if they did not, or
  // if this worker failed outside a call.
  virtual std::optional<Error> explain(std::chrono::milliseconds patience) = 0;

  // Elects the worker that reports the end of the process group: one failure usually ends all
  // workers, and the user should see one message. Returns true if this worker is elected, and
  // nullopt if the others cannot be asked. A mistake or failure takes precedence over a lost peer.
  // Stops the watch.
  virtual std::optional<bool> claim_report(Ending ending) = 0;

  // To be called after the report, before this worker exits. Rank 0 may serve the store: it waits
  // until all others have claimed, at most one second. Under an agent, it waits only for the
  // answers of claims that have begun: the agent ends the others.
  virtual void stay_for_claims() = 0;
};

// Returns null for a single worker and if `options` disable the watch. `store` is the store of the
// rendezvous; null under MPI, where rank 0 then serves one. All workers call this function
// together.
std::unique_ptr<StallWatch> watch_for_stalls(Communicator& communicator,
                                             const compat::StorePtr& store,
                                             const contract::WorkerSpec& spec,
                                             const StallOptions& options);

}  // namespace lockstep::comm
