// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>

#include "lockstep/strategy.h"

namespace lockstep::train {

// Everything that a training step needs. All references must outlive the GraphStep.
struct StepParts {
  Strategy& strategy;
  torch::nn::Module& model;
  torch::optim::Optimizer& optimizer;
  const LossFunction& loss;
  StepOptions step;
  double weight = 1;  // MicroBatch::weight
};

// A complete training step (forward, backward, optimizer update) as a CUDA graph. The GPU replays
// it after a single launch; the host no longer queues each operator.
//
// A graph contains addresses, not tensors. Everything that it reads or writes must stay at the same
// address: parameters, gradients, optimizer state, the input batch and the learning rates. For this
// reason play() copies each batch into fixed tensors, and the optimizer writes the values that
// change (step count, learning rate) to fixed GPU memory before each replay.
//
// Host code in the step runs only once, while the step is recorded. A step whose host code decides
// something in each step therefore cannot be recorded; StepRunner::reason_against_graph() lists the
// cases.
class GraphStep {
 public:
  virtual ~GraphStep() = default;

  // Whether the step was recorded with a batch of this shape. A batch of another shape, such as the
  // last of an epoch, must be computed without the graph.
  virtual bool fits(const Batch& batch) const = 0;

  // Queues the step with this batch on the current stream. Returns loss and scores; they are fixed
  // tensors that the next play() overwrites, so clone what must survive it.
  virtual Loss play(const Batch& batch) = 0;

  // The norm of the gradient of the last play(), on the GPU.
  virtual torch::Tensor norm() const = 0;
};

// Whether this build supports CUDA graphs.
bool has_graphs();

// Records the step without executing it. Returns null and sets `reason` if it cannot be recorded,
// for example because the loss function reads a value from the GPU. The model is then unchanged and
// has no gradients.
//
// Some steps must have been executed without a graph before, on the current stream: in the first
// steps, libraries choose their algorithms and the optimizer creates its state, which must not
// happen during the capture. The current stream must not be the default stream, which CUDA cannot
// capture.
std::unique_ptr<GraphStep> record_step(const StepParts& parts,
                                       const Batch& batch,
                                       std::string& reason);

}  // namespace lockstep::train
