// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

// How a dynamic loss scale moves. The defaults are those of PyTorch's GradScaler.
struct LossScaling {
  double first = 65536;
  int64_t good_steps = 2000;        // before it doubles
  int64_t hysteresis = 1;           // the scale halves at this overflow and those after it
  bool refills_hysteresis = false;  // at each good step; else when the scale doubles
  double least = 1;
};

}  // namespace lockstep
