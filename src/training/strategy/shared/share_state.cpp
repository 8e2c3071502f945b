// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/share_state.h"

#include "lockstep/checkpoint.h"
#include "training/strategy/shared/trained_parameters.h"

namespace lockstep::strategy {

void share_state(Communicator& communicator,
                 torch::nn::Module& model,
                 torch::optim::Optimizer& optimizer,
                 int root) {
  communicator.broadcast(whole_state(model), root);
  // An optimizer without a step has no state to copy. It may then also be of a type that
  // checkpoints do not support.
  torch::Tensor has_state =
      torch::full({1}, optimizer.state().empty() ? 0 : 1, torch::dtype(torch::kInt64));
  communicator.all_reduce(has_state, Reduction::Max);
  if (communicator.size() == 1 || has_state.item<int64_t>() == 0) {
    return;
  }
  const NamedTensors names = collect_model(model);
  c10::IValue state =
      communicator.rank() == root ? collect_optimizer(optimizer, names) : c10::IValue(int64_t{0});
  state = communicator.broadcast_object(state, root);
  if (communicator.rank() != root) {
    apply_optimizer(optimizer, names, state, "the optimizer state of another rank");
  }
}

}  // namespace lockstep::strategy
