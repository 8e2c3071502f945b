// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <torch/torch.h>
#include <type_traits>
#include <vector>

namespace lockstep {

// A part of a model whose inner results are not kept for backward but computed again there: memory
// against time.
struct RecomputedBlock {
  std::function<torch::Tensor(const torch::Tensor&)> forward;
  std::vector<torch::Tensor> parameters;    // all that `forward` uses and that are trained
  std::vector<torch::Tensor> buffers = {};  // that `forward` changes, such as batch norm's averages
};

// block.forward(input). The second computation has the same random numbers, the same autocast and
// leaves buffers as they are, so gradients are those of the plain call to the bit. What `forward`
// refers to must live until backward. Without a gradient to come it is the plain call.
//
// Throws an Error in backward if another thread drew random numbers while the block did: the
// dropout of the two computations would differ.
torch::Tensor recompute(const RecomputedBlock& block, const torch::Tensor& input);

// The same for a module, or the holder of one, with a forward() from a tensor to a tensor. Under
// -s ddp all of its parameters count as used, also those that forward() leaves out.
template <typename Module>
torch::Tensor recompute(Module& module, const torch::Tensor& input) {
  if constexpr (std::is_base_of_v<torch::nn::Module, Module>) {
    return recompute(
        RecomputedBlock{
            .forward = [&module](const torch::Tensor& again) { return module.forward(again); },
            .parameters = module.parameters(),
            .buffers = module.buffers()},
        input);
  } else {
    return recompute(*module, input);
  }
}

}  // namespace lockstep
