// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/batch.h"

namespace lockstep::data {

// Interface of data sets that can create a batch directly in pinned memory. For other data sets the
// Loader copies each batch into pinned memory.
class PinnedSource {
 public:
  virtual ~PinnedSource() = default;

  // Like Dataset::batch(), in memory that is pinned for the current GPU of this thread.
  virtual Batch pinned_batch(std::span<const int64_t> indices) const = 0;
};

}  // namespace lockstep::data
