// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "training/data/idx.h"

namespace lockstep::data {

// Draws `count` digits of 28 x 28 pixels. Image i depends only on seed, stream and i.
LabelledImages draw_digits(int64_t count, uint64_t seed, uint64_t stream);

}  // namespace lockstep::data
