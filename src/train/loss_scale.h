// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/loss_scaling.h"

namespace lockstep::train {

// The factor that keeps small gradients alive in sixteen bits: the loss is multiplied by it, the
// gradients are divided by it before the optimizer sees them.
//
// A dynamic one is as high as it can be: it doubles after 2000 good steps, and halves at each step
// whose gradients leave the range of numbers; that step is left out. The numbers are those of
// PyTorch's GradScaler: a try at a doubled scale that fails costs one step in 2000. LossScaling
// has others, and DeepSpeed's hysteresis: overflows that leave the scale as it is. The same on
// every worker, because the gradients are.
class LossScaler {
 public:
  // No scale: nothing is multiplied, nothing looked at.
  LossScaler() = default;

  // `text` is "none", "dynamic", a number (which then never changes) or empty: dynamic with fp16,
  // else none. Throws an Error for anything else.
  LossScaler(const std::string& text,
             const std::string& precision,
             const LossScaling& scaling = {});

  bool is_on() const { return scale_ > 0; }
  double scale() const { return is_on() ? scale_ : 1; }
  int64_t skipped() const { return skipped_; }

  // `applied`: the gradients of step `step` were finite. Throws an Error when no scale is small
  // enough.
  void after_step(int64_t step, bool applied);

  // For a checkpoint; empty where there is no scale.
  std::string state() const;
  void restore(const std::string& state);

 private:
  LossScaling scaling_ = {};
  double scale_ = 0;
  bool is_dynamic_ = false;
  int64_t good_steps_ = 0;  // since the last change
  int64_t overflows_ = 0;   // one after the other, at a scale that cannot fall
  int64_t skipped_ = 0;
  int64_t patience_ = 1;  // at 1 the next overflow halves the scale
};

}  // namespace lockstep::train
