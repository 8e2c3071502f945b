// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <torch/torch.h>
#include <vector>

#include "lockstep/optimizer.h"

namespace lockstep::optim {

struct FusedStep {
  double clip_norm = 0;       // limits the norm of all gradients together; 0: not at all
  double gradient_scale = 1;  // gradients are multiplied by this first
  bool wants_norm = false;    // norm() is asked for without clipping, too
};

// An optimizer whose step on a GPU is one kernel for all parameters, or two where gradients are
// clipped: the GPU itself looks at their norm, and nobody waits for it. Options and state are those
// of libtorch's optimizer of the name, so that a checkpoint knows no difference.
//
// A step has two halves, so that the second may be recorded once and played again: what the host
// counts and tells the GPU, and what the GPU does.
class FusedOptimizer {
 public:
  virtual ~FusedOptimizer() = default;

  // Whether it can take this step: all parameters that have a gradient are float32, dense and on
  // one GPU. If not, step() does it by libtorch's operators.
  virtual bool is_fused() const = 0;

  // The whole step.
  void step_fused(const FusedStep& options) {
    if (!is_recorded_) {
      prepare();
    }
    launch(options);
  }

  // While it is recorded, step_fused() is the GPU's half alone, and prepare() is called before each
  // time that it is played. A step must have been made before: it makes the state.
  void set_recorded(bool is_recorded) { is_recorded_ = is_recorded; }
  bool is_recorded() const { return is_recorded_; }

  // The host's half: counts the step, and tells the GPU learning rates and the like.
  virtual void prepare() = 0;

  // The norm of all gradients in the last step that clipped or wanted it, on the GPU.
  virtual torch::Tensor norm() const = 0;

  // The same of the step that was played last.
  virtual torch::Tensor recorded_norm() const = 0;

  // A recording that did not come about: what it held is given back.
  virtual void drop_recorded() = 0;

 private:
  // The GPU's half.
  virtual void launch(const FusedStep& options) = 0;

  bool is_recorded_ = false;
};

// sgd, adam or adamw; null for others, and in a build without CUDA.
std::unique_ptr<torch::optim::Optimizer> make_fused(
    const std::vector<torch::optim::OptimizerParamGroup>& groups, const OptimizerOptions& options);

}  // namespace lockstep::optim
