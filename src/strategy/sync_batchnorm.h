// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>
#include <memory>

#include "lockstep/communicator.h"
#include "lockstep/strategy.h"

namespace lockstep::strategy {

// Makes batch norm take its statistics over the whole gang, in any model with libtorch's own
// BatchNorm modules: while a Scope lives, each batch norm in training mode that is called under it
// is computed with two small exchanges, one in forward and one in backward.
//
// libtorch's modules have neither hooks nor a virtual forward, so the operator itself is replaced:
// once in a process, for good, at the first use. The replacement looks for a Scope in the state
// that libtorch hands from a thread to the threads of its backward, and computes as before where it
// finds none. Ranks that are threads of one process have a Scope each.
class SyncBatchNorm {
 public:
  class Gang;

  // Does nothing.
  SyncBatchNorm();
  // Does nothing either unless `options` ask for it and there are several workers; else all workers
  // must make one at the same time. Throws an Error where workers may run out of batches.
  SyncBatchNorm(Communicator& communicator, const StrategyOptions& options);
  ~SyncBatchNorm();
  SyncBatchNorm(SyncBatchNorm&& other) noexcept;
  SyncBatchNorm& operator=(SyncBatchNorm&& other) noexcept;

  // Around forward and backward of a batch. All workers must run the same batch norms in the same
  // order under it.
  using Scope = std::unique_ptr<c10::DebugInfoGuard>;
  [[nodiscard]] Scope enter() const;

 private:
  std::shared_ptr<Gang> gang_;
};

}  // namespace lockstep::strategy
