// SPDX-License-Identifier: Apache-2.0
#include "training/optim/fused.h"

namespace lockstep::optim {

std::unique_ptr<torch::optim::Optimizer> make_fused(
    const std::vector<torch::optim::OptimizerParamGroup>& /*groups*/,
    const OptimizerOptions& /*options*/) {
  return nullptr;
}

}  // namespace lockstep::optim
