// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <torch/optim.h>
#include <torch/types.h>
#include <vector>

#include "lockstep/muon.h"
#include "lockstep/optimizer.h"

namespace lockstep::optim {

struct FusedStep {
  double clip_norm = 0;       // maximum norm of all gradients together; 0: no clipping
  double gradient_scale = 1;  // factor of the gradients, applied first
  bool wants_norm = false;    // norm() is needed even without clipping
};

// An optimizer whose step on a GPU is few kernels for all parameters: with sgd, adam and adamw one,
// or two with clipping. The GPU itself evaluates the norm, so the host does not wait for it.
// Options and state are those of the optimizer of libtorch with the same name, so checkpoints are
// interchangeable.
//
// A step has two halves, so that the second can be recorded in a CUDA graph and replayed:
// - prepare(), on the host: counts the step and copies the learning rates to the GPU;
// - launch(), on the GPU: the kernels.
class FusedOptimizer {
 public:
  virtual ~FusedOptimizer() = default;

  // Whether this step can be fused: all parameters with a gradient are float32, dense and on one
  // GPU. Otherwise step() uses the operators of libtorch.
  virtual bool is_fused() const = 0;

  // Executes the whole step.
  void step_fused(const FusedStep& options) {
    if (!is_recorded_) {
      prepare();
    }
    launch(options);
  }

  // While recording, step_fused() executes only the half of the GPU, and prepare() must be called
  // before each replay. At least one step must have been made before, because it creates the state.
  void set_recorded(bool is_recorded) { is_recorded_ = is_recorded; }
  bool is_recorded() const { return is_recorded_; }

  // The half of the host: counts the step and copies learning rates and other coefficients to the
  // GPU.
  virtual void prepare() = 0;

  // The norm of all gradients in the last step that clipped or requested it, on the GPU.
  virtual torch::Tensor norm() const = 0;

  // The norm of all gradients in the last replayed step, on the GPU.
  virtual torch::Tensor recorded_norm() const = 0;

  // Must be called if recording failed: releases everything that belongs to it.
  virtual void drop_recorded() = 0;

 private:
  // The half of the GPU.
  virtual void launch(const FusedStep& options) = 0;

  bool is_recorded_ = false;
};

// Creates sgd, adam or adamw; null for others and in a build without CUDA.
std::unique_ptr<torch::optim::Optimizer> make_fused(
    const std::vector<torch::optim::OptimizerParamGroup>& groups, const OptimizerOptions& options);

// Creates Muon whose groups have options of their own; null in a build without CUDA. Its step on a
// GPU is two kernels and one batched Newton-Schulz iteration for all matrices of one shape, and the
// kernel of AdamW for all other parameters.
std::unique_ptr<Muon> make_fused_muon(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                                      const MuonOptions& options);

}  // namespace lockstep::optim
