// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// Destinations of column sums: adjacent parts with `columns` columns each. Parts with a null
// destination are discarded.
struct ColumnSums {
  float* parts[3] = {nullptr, nullptr, nullptr};
  int64_t columns = 0;
};

// Adds the rows of partials [count, width] in a fixed order; `width` includes all parts.
void add_partials(
    const ColumnSums& sums, const float* partials, int64_t count, int64_t width, Stream stream);

}  // namespace lockstep::kernels
