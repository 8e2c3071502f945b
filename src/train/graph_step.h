// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <torch/torch.h>

#include "lockstep/strategy.h"

namespace lockstep::train {

// What a step consists of.
struct StepParts {
  Strategy& strategy;
  torch::nn::Module& model;
  torch::optim::Optimizer& optimizer;
  const LossFunction& loss;
  StepOptions step;
  double weight = 1;  // MicroBatch::weight
};

// A whole training step, forward to update, that a GPU was taught once and does again on a word:
// the host no longer feeds it operator by operator. Batches go into memory that stays where it is.
class GraphStep {
 public:
  virtual ~GraphStep() = default;

  // Whether the step was recorded with a batch of this shape.
  virtual bool fits(const Batch& batch) const = 0;

  // The step with this batch; its loss and scores, which the next one overwrites.
  virtual Loss play(const Batch& batch) = 0;

  // The norm of the gradient in the step that was played last, on the GPU.
  virtual torch::Tensor norm() const = 0;
};

// Whether this build can record steps.
bool has_graphs();

// Records the step, which is not made thereby. Some steps must have been made before by the usual
// way, with the same stream as the current one, which is not the default. Null, and the reason, if
// it cannot be recorded: a loss function that looks at a number of the GPU, say.
std::unique_ptr<GraphStep> record_step(const StepParts& parts,
                                       const Batch& batch,
                                       std::string& reason);

}  // namespace lockstep::train
