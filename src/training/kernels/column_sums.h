// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/kernels/stream.h"

namespace lockstep::kernels {

// Where sums by column go: adjacent parts of `columns` columns each. A part
// whose place is null is dropped.
struct ColumnSums {
  float* parts[3] = {nullptr, nullptr, nullptr};
  int64_t columns = 0;
};

// Adds up the rows of partials [count, width] in fixed order; width is that of all parts.
void add_partials(
    const ColumnSums& sums, const float* partials, int64_t count, int64_t width, Stream stream);

}  // namespace lockstep::kernels
