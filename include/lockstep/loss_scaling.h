// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

// Parameters of dynamic loss scaling. The loss is multiplied by a scale so that small fp16
// gradients do not underflow; gradients are divided by it before the optimizer step. The scale
// doubles after good_steps steps without overflow and halves on an overflow. The step that
// overflowed is skipped.
//
//   TrainerOptions options{.precision = "fp16", .loss_scaling = {.good_steps = 500}};
//
// The defaults are those of PyTorch's GradScaler. hysteresis and refills_hysteresis follow
// DeepSpeed ("hysteresis" and "consecutive_hysteresis" in ds_config.json).
struct LossScaling {
  double first = 65536;             // initial scale
  int64_t good_steps = 2000;        // steps without overflow before the scale doubles
  int64_t hysteresis = 1;           // the scale halves at this overflow and at each further one
  bool refills_hysteresis = false;  // reset hysteresis after each good step, not after a doubling
  double minimum = 1;               // minimum scale
};

}  // namespace lockstep
