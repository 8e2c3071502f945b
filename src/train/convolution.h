// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <torch/torch.h>

#include "lockstep/communicator.h"
#include "lockstep/strategy.h"

namespace lockstep::train {

// Decides how this process computes convolutions on the CPU, and sets it: "onednn" or "im2col"
// (matrix product by the BLAS). On arm64, Debian's oneDNN is 3x slower; on x86_64 it is mostly
// faster. `wanted` is one of them, or "auto": both are timed on `batch` and the gang
// keeps the faster; model, gradients and random numbers stay as they were.
//
// Returns a line for people; empty where the model has no convolution or runs on a GPU.
struct ConvolutionChoice {
  std::string kernel;  // "onednn", "im2col", or empty: nothing to choose
  std::string text;
};

ConvolutionChoice choose_convolution(std::string_view wanted,
                                     torch::nn::Module& model,
                                     const LossFunction& loss,
                                     const Batch& batch,
                                     Communicator& communicator);

}  // namespace lockstep::train
