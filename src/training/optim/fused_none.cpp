// SPDX-License-Identifier: Apache-2.0
#include "training/optim/fused.h"

namespace lockstep::optim {

std::unique_ptr<torch::optim::Optimizer> make_fused(
    const std::vector<torch::optim::OptimizerParamGroup>& /*groups*/,
    const OptimizerOptions& /*options*/) {
  return nullptr;
}

std::unique_ptr<Muon> make_fused_muon(
    const std::vector<torch::optim::OptimizerParamGroup>& /*groups*/,
    const MuonOptions& /*options*/) {
  return nullptr;
}

}  // namespace lockstep::optim
