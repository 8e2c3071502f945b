// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "common/contract/worker_env.h"
#include "training/comm/stall_watch.h"
#include "training/train/session/stop_request.h"

namespace lockstep::train {

// The state of a worker that ends with an exception. Pointers may be null: the exception may come
// from any part of run().
struct EndingWorker {
  const contract::WorkerSpec& spec;
  comm::StallWatch* watch = nullptr;
  StopRequest* stop = nullptr;
};

// Reports the exception that ends this worker, and returns its exit code. One failure usually ends
// all workers, and the user should see one message:
//
//                     under lockstep run               under another launcher
//   a single worker   prints                           prints
//   different calls   the elected worker prints        the elected worker prints
//   own failure       the elected worker prints;       the elected worker prints;
//                     without a store, rank 0          without a store, every worker
//   lost peer         no worker prints                 the elected worker prints if no worker has
//                                                      failed itself and no signal has arrived;
//                                                      without a store, each worker prints a line
//
// A worker that does not print exits without a delay. Under lockstep run its agent adds the error
// to its log, so that the failure report of the launcher quotes it, whichever worker it names.
int report_failure(const std::exception_ptr& failure, const EndingWorker& worker);

}  // namespace lockstep::train
