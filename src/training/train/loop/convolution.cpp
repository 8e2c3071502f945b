// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/convolution.h"

#include <ATen/CPUGeneratorImpl.h>
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/nn.h>
#include <torch/utils.h>

namespace lockstep::train {
namespace {

constexpr int64_t kWarmupSamples = 4;

bool is_convolution(torch::nn::Module& module) {
  return module.as<torch::nn::Conv1d>() != nullptr || module.as<torch::nn::Conv2d>() != nullptr ||
         module.as<torch::nn::Conv3d>() != nullptr;
}

// Checks the model itself separately: modules() includes it only if a shared_ptr owns it.
bool has_convolution(torch::nn::Module& model) {
  const auto modules = model.modules(/*include_self=*/false);
  return is_convolution(model) ||
         std::any_of(modules.begin(), modules.end(), [](const auto& module) {
           return is_convolution(*module);
         });
}

void use(bool onednn) {
  at::globalContext().setUserEnabledMkldnn(onednn);
}

// Uses autograd::grad() instead of backward(), so that no gradient is stored and no hook of a
// strategy runs.
double seconds_of_a_pass(torch::nn::Module& model, const LossFunction& loss, const Batch& batch) {
  std::vector<torch::Tensor> trained;
  for (const torch::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) {
      trained.push_back(parameter);
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const torch::Tensor value = loss(model, batch).value;
  torch::autograd::grad({value}, trained, {}, {}, false, /*allow_unused=*/true);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// The times are summed over all workers, so that all select the same kernel: different kernels
// round differently, and the weights of the workers would drift apart. Buffers (batch norm
// statistics) and the random state are restored, so that the measurement leaves no trace.
ConvolutionChoice choose_convolution(std::string_view wanted,
                                     torch::nn::Module& model,
                                     const LossFunction& loss,
                                     const Batch& batch,
                                     Communicator& communicator) {
  // oneDNN supports only float32; libtorch uses im2col for all other types. Images that are stored
  // as bytes are converted to float32 by the model.
  const bool is_other =
      batch.input.is_floating_point() && batch.input.scalar_type() != torch::kFloat32;
  if (!batch.input.device().is_cpu() || is_other || !at::globalContext().hasMKLDNN() ||
      !has_convolution(model)) {
    return {};
  }
  // oneDNN was disabled earlier because it does not support the requested precision.
  if (wanted == "auto" && !at::globalContext().userEnabledMkldnn()) {
    return {"im2col", ""};
  }
  if (wanted != "auto") {
    use(wanted == "onednn");
    return {std::string(wanted), fmt::format("convolutions: {} (--conv)", wanted)};
  }
  const torch::Tensor random = at::detail::getDefaultCPUGenerator().get_state().clone();
  std::vector<torch::Tensor> buffers;
  for (const torch::Tensor& buffer : model.buffers()) {
    buffers.push_back(buffer.clone());
  }
  torch::Tensor times = torch::zeros({2}, torch::kFloat64);
  // The first pass over a few samples starts threads and builds kernels. Only the pass over the
  // entire batch counts, because the faster kernel for a few samples may be far slower for many.
  for (const int64_t samples : {std::min(batch.size(), kWarmupSamples), batch.size()}) {
    const Batch some = batch.slice(0, samples);
    for (const int onednn : {0, 1}) {
      use(onednn == 1);
      times[onednn] = seconds_of_a_pass(model, loss, some);
    }
  }
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(random);
  {
    torch::NoGradGuard no_grad;
    const std::vector<torch::Tensor> changed = model.buffers();
    for (size_t i = 0; i < buffers.size(); ++i) {
      changed[i].detach().copy_(buffers[i]);
    }
  }
  communicator.all_reduce(times);
  const auto im2col = times[0].item<double>();
  const auto onednn = times[1].item<double>();
  use(onednn < im2col);
  const double ratio = std::max(onednn, im2col) / std::max(std::min(onednn, im2col), 1e-9);
  return {onednn < im2col ? "onednn" : "im2col",
          fmt::format("convolutions: {} ({:.1f}x faster than {} on the first batch)",
                      onednn < im2col ? "onednn" : "im2col",
                      ratio,
                      onednn < im2col ? "im2col" : "onednn")};
}

}  // namespace lockstep::train
