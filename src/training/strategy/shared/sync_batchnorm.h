// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>
#include <memory>

#include "lockstep/communicator.h"
#include "lockstep/strategy.h"

namespace lockstep::strategy {

// Makes batch norm compute its statistics over all workers, in any model with the BatchNorm modules
// of libtorch. During the lifetime of a Scope, each batch norm in training mode needs two small
// exchanges, one in forward and one in backward.
//
// The modules of libtorch have neither hooks nor a virtual forward, so the operator itself is
// replaced: once per process, permanently, at the first use. The replacement looks for a Scope in
// the thread-local state that libtorch copies to the threads of backward. Without one, it calls the
// original operator. Ranks that are threads of one process have one Scope each.
class SyncBatchNorm {
 public:
  class ProcessGroup;

  // Disabled.
  SyncBatchNorm();
  // Disabled unless `options` request it and there are several workers. Otherwise all workers must
  // construct theirs together. Throws an Error with uneven inputs.
  SyncBatchNorm(Communicator& communicator, const StrategyOptions& options);
  ~SyncBatchNorm();
  SyncBatchNorm(SyncBatchNorm&& other) noexcept;
  SyncBatchNorm& operator=(SyncBatchNorm&& other) noexcept;

  // Must be alive during forward and backward of a batch. All workers must execute the same batch
  // norms in the same order under it.
  using Scope = std::unique_ptr<c10::DebugInfoGuard>;
  [[nodiscard]] Scope enter() const;

 private:
  std::shared_ptr<ProcessGroup> group_;
};

}  // namespace lockstep::strategy
