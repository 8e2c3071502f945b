// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::data {

// Throws an Error unless 0 <= index < size.
inline void check_index(int64_t index, int64_t size) {
  if (index < 0 || index >= size) {
    throw Error(ExitCode::Usage,
                fmt::format("sample {} does not exist: the data set has {} samples", index, size));
  }
}

}  // namespace lockstep::data
