// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/loss_scaling.h"

namespace lockstep::train {

// Loss scaling: the loss is multiplied by a factor so that small 16-bit gradients do not underflow,
// and the gradients are divided by it before the optimizer step.
//
// A dynamic scale is as high as possible: it doubles after 2000 good steps and halves after a step
// whose gradients overflow; that step is skipped. The numbers are those of PyTorch's GradScaler: a
// failed attempt at a doubled scale costs one step in 2000. LossScaling contains other numbers and
// DeepSpeed's hysteresis, a number of overflows that do not change the scale.
//
// The scale is the same on every worker without communication, because the gradients are the same.
class LossScaler {
 public:
  // No loss scaling: gradients are not checked.
  LossScaler() = default;

  // `text` is "none", "dynamic", a number (a fixed scale) or empty: dynamic with fp16, otherwise
  // none. Throws an Error for any other text.
  LossScaler(const std::string& text,
             const std::string& precision,
             const LossScaling& scaling = {});

  bool is_on() const { return scale_ > 0; }
  double scale() const { return is_on() ? scale_ : 1; }
  int64_t skipped() const { return skipped_; }

  // Updates the scale after step `step`. `applied`: its gradients were finite. Throws an Error
  // after repeated overflows at a scale that cannot decrease.
  void after_step(int64_t step, bool applied);

  // The state for a checkpoint; empty without loss scaling. restore() throws an Error if the text
  // is invalid.
  std::string state() const;
  void restore(const std::string& state);

 private:
  LossScaling scaling_ = {};
  double scale_ = 0;
  bool is_dynamic_ = false;
  int64_t good_steps_ = 0;  // since the last change
  int64_t overflows_ = 0;   // in a row, at a scale that cannot decrease
  int64_t skipped_ = 0;
  int64_t patience_ = 1;  // at 1 the next overflow halves the scale
};

}  // namespace lockstep::train
