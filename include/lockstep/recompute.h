// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <type_traits>
#include <vector>

// Activations that are not stored for backward but recomputed there. This trades time for memory;
// PyTorch calls it activation checkpointing. In the forward() of a model:
//
//   for (auto& block : blocks) {
//     x = options.recompute ? lockstep::recompute(block, x) : block->forward(x);
//   }
//
// Set options.recompute from Session::recompute(), so that --recompute selects it.
namespace lockstep {

// A part of a model that is recomputed in backward, for parts that are not a module.
//
//   const RecomputedBlock block{.forward = [&](const torch::Tensor& x) { return head(norm(x)); },
//                               .parameters = parameters_of_head_and_norm};
struct RecomputedBlock {
  std::function<torch::Tensor(const torch::Tensor&)> forward;
  std::vector<torch::Tensor> parameters;    // all trained parameters that `forward` uses
  std::vector<torch::Tensor> buffers = {};  // modified by `forward`, such as batch norm statistics
};

// Returns block.forward(input).
//
// The recomputation uses the same random numbers and the same autocast state and does not modify
// the buffers again. Gradients are therefore bit-identical to those of a plain call. Everything
// that `forward` refers to must exist until backward has completed. If no gradient is required, the
// result is that of a plain call.
//
// Throws an Error in backward if another thread drew random numbers while the block was computed,
// because the dropout of the two computations would differ.
torch::Tensor recompute(const RecomputedBlock& block, const torch::Tensor& input);

// Recomputes a module, or the holder of a module, whose forward() maps a tensor to a tensor, as in
// the example at the top. Returns module.forward(input).
//
// The module must exist until backward has completed. Under -s ddp, all of its parameters count as
// used, even those that forward() does not use.
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
