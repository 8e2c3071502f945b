// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/optim.h>
#include <torch/types.h>

namespace lockstep::optim {

// Adam and AdamW of libtorch with a step on the CPU that makes one pass over memory instead of ten.
// Options and state are those of libtorch, so checkpoints are interchangeable. If a parameter is
// not float32, dense and on the CPU, libtorch makes the step.
class VectorAdam : public torch::optim::Adam {
 public:
  using Adam::Adam;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

class VectorAdamW : public torch::optim::AdamW {
 public:
  using AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace lockstep::optim
