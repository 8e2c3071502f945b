// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

namespace lockstep::optim {

// libtorch's Adam or AdamW with a step that makes one pass over memory instead of ten, for the
// optimizer that works on the CPU. Options and state are libtorch's own, so that a checkpoint knows
// no difference. Parameters that are not float32 in one piece on the CPU go libtorch's way.
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
