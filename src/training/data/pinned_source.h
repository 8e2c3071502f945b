// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/batch.h"

namespace lockstep::data {

// Interface of data sets that can create a batch where the current GPU reads it fast: in pinned
// memory, or on the GPU itself. For other data sets the Loader copies each batch into pinned
// memory.
class PinnedSource {
 public:
  virtual ~PinnedSource() = default;

  // Like Dataset::batch(), in memory that is pinned for the current GPU of this thread, or on that
  // GPU. A batch on the GPU is complete, but its memory belongs to another stream than the current
  // one: the user of the batch records its own stream.
  virtual Batch pinned_batch(std::span<const int64_t> indices) const = 0;
};

}  // namespace lockstep::data
