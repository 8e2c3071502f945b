// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::data {

// Refuses a sample that a data set of `size` samples does not have.
inline void check_index(int64_t index, int64_t size) {
  if (index < 0 || index >= size) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot give sample {}: the data set has {}", index, size));
  }
}

}  // namespace lockstep::data
