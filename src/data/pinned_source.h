// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "lockstep/batch.h"

namespace lockstep::data {

// What a data set is beside, if it can make a batch in pinned memory at once. Others are copied
// there by the Loader.
class PinnedSource {
 public:
  virtual ~PinnedSource() = default;

  // Dataset::batch() in memory that is pinned for the GPU which is current on this thread.
  virtual Batch pinned_batch(std::span<const int64_t> indices) const = 0;
};

}  // namespace lockstep::data
