// SPDX-License-Identifier: Apache-2.0
#include "train/precision.h"

#include <fmt/format.h>

#include "base/text.h"
#include "lockstep/error.h"
#include "models/autocast.h"

namespace lockstep::train {
namespace {

// What every network needs; a libtorch without kernels of this type throws.
void try_out(torch::Device device, torch::ScalarType type) {
  const models::AutocastScope scope(device.type(), type);
  const auto options = torch::device(device);
  const torch::Tensor weight = torch::ones({2, 2}, options).set_requires_grad(true);
  const torch::Tensor filter = torch::ones({1, 1, 1, 1}, options).set_requires_grad(true);
  const torch::Tensor image = torch::conv2d(torch::ones({1, 1, 2, 2}, options), filter);
  torch::relu(torch::linear(image.view({2, 2}), weight)).sum().backward();
}

// The first reason why not; empty if it can.
std::string reason_against(torch::Device device, torch::ScalarType type) {
  try {
    try_out(device, type);
    return "";
  } catch (const std::exception& fault) {
    // libtorch 1.13 puts a stack trace behind the first line.
    return split(fault.what(), '\n').front();
  }
}

// oneDNN has kernels of this type for some processors only, where libtorch's own do without it.
std::string reason_against_without_onednn(torch::Device device, torch::ScalarType type) {
  at::globalContext().setUserEnabledMkldnn(false);
  std::string reason = reason_against(device, type);
  if (!reason.empty()) {
    at::globalContext().setUserEnabledMkldnn(true);
  }
  return reason;
}

[[noreturn]] void refuse(const std::string& precision,
                         torch::Device device,
                         const std::string& reason) {
  throw Error(
      ExitCode::Usage,
      fmt::format(
          "cannot compute in --precision {} on the {}", precision, device.is_cpu() ? "CPU" : "GPU"))
      .fact("asked", fmt::format("--precision {}", precision))
      .fact("reason", reason, "libtorch " TORCH_VERSION)
      .hint(precision == "fp16" ? "--precision bf16" : "--precision fp32");
}

}  // namespace

LossFunction in_precision(const LossFunction& loss,
                          const std::string& precision,
                          torch::Device device) {
  if (precision == "fp32") {
    return loss;
  }
  const torch::ScalarType type = precision == "fp16" ? torch::kHalf : torch::kBFloat16;
  std::string reason = reason_against(device, type);
  if (!reason.empty() && device.is_cpu() && at::globalContext().userEnabledMkldnn()) {
    const std::string without = reason_against_without_onednn(device, type);
    reason = without.empty() ? without : reason;
  }
  if (!reason.empty()) {
    refuse(precision, device, reason);
  }
  return [loss, type, device](torch::nn::Module& model, const Batch& batch) {
    Loss result;
    {
      const models::AutocastScope scope(device.type(), type);
      result = loss(model, batch);
    }
    const auto widened = [](const torch::Tensor& tensor) {
      return tensor.defined() && tensor.scalar_type() != torch::kFloat64
                 ? tensor.to(torch::kFloat32)
                 : tensor;
    };
    return Loss(widened(result.value), widened(result.scores));
  };
}

}  // namespace lockstep::train
