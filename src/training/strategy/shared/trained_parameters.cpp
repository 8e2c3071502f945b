// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/trained_parameters.h"

#include <unordered_set>

#include "lockstep/error.h"

namespace lockstep::strategy {

// named_parameters() visits modules in the order of their registration. The result is therefore in
// the same order on all workers, and messages can rely on positions in it.
TrainedParameters trained_parameters(const torch::nn::Module& model) {
  TrainedParameters result;
  std::unordered_set<const void*> seen;
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad() && seen.insert(item.value().unsafeGetTensorImpl()).second) {
      result.tensors.push_back(item.value());
      result.names.push_back(item.key());
    }
  }
  if (result.tensors.empty()) {
    throw Error(ExitCode::Usage, "the model has no parameter that requires a gradient");
  }
  return result;
}

std::vector<torch::Tensor> whole_state(const torch::nn::Module& model) {
  std::vector<torch::Tensor> state = model.parameters();
  const std::vector<torch::Tensor> buffers = model.buffers();
  state.insert(state.end(), buffers.begin(), buffers.end());
  return state;
}

}  // namespace lockstep::strategy
