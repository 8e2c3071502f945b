// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "lockstep/communicator.h"
#include "lockstep/strategy.h"

namespace lockstep::train {

// Selects the kernel for convolutions on the CPU: "onednn" or "im2col" (matrix product by the
// BLAS). On arm64, Debian's oneDNN is 3x slower; on x86_64 it is mostly faster. `wanted` is one of
// them, or "auto": both are timed on `batch`, and all workers use the one with the lower total
// time. Model, gradients and random number generators stay unchanged. All workers must call it.
//
// The text of the result is for output. Both members are empty if the model has no convolution or
// runs on a GPU.
struct ConvolutionChoice {
  std::string kernel;  // "onednn", "im2col", or empty: no choice
  std::string text;
};

ConvolutionChoice choose_convolution(std::string_view wanted,
                                     torch::nn::Module& model,
                                     const LossFunction& loss,
                                     const Batch& batch,
                                     Communicator& communicator);

}  // namespace lockstep::train
