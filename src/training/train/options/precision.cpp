// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/precision.h"

#include <fmt/format.h>
#include <torch/version.h>

#include "common/base/text.h"
#include "lockstep/error.h"
#include "training/models/autocast.h"
#include "training/models/gpt2_fused.h"

namespace lockstep::train {
namespace {

// Runs a convolution and a linear layer forward and backward. Throws if this libtorch has no
// kernels of this type: an attempt is more reliable than a table of versions.
void try_out(torch::Device device, torch::ScalarType type) {
  const models::AutocastScope scope(device.type(), type);
  const auto options = torch::device(device);
  const torch::Tensor weight = torch::ones({2, 2}, options).set_requires_grad(true);
  const torch::Tensor filter = torch::ones({1, 1, 1, 1}, options).set_requires_grad(true);
  const torch::Tensor image = torch::conv2d(torch::ones({1, 1, 2, 2}, options), filter);
  torch::relu(torch::linear(image.view({2, 2}), weight)).sum().backward();
}

// Returns why `type` is not supported on `device`; empty if it is.
std::string reason_against(torch::Device device, torch::ScalarType type) {
  try {
    try_out(device, type);
    return "";
  } catch (const std::exception& fault) {
    // libtorch 1.13 appends a stack trace to the first line.
    return split(fault.what(), '\n').front();
  }
}

// oneDNN supports 16-bit types only on some processors; the kernels of libtorch support them on
// all. Leaves oneDNN disabled if that helps.
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
                         const std::string& reason,
                         const std::string& file) {
  const bool could_be_bf16 = precision == "fp16" || (precision == "fp8" && device.is_cuda());
  const std::string instead = could_be_bf16 ? "bf16" : "fp32";
  const auto in_file = [](const std::string& type) {
    return type == "fp32" ? std::string("neither \"fp16\" nor \"bf16\"")
                          : fmt::format("\"{}\": {{\"enabled\": true}}", type);
  };
  throw Error(
      ExitCode::Usage,
      fmt::format("cannot compute in {} on the {}", precision, device.is_cpu() ? "CPU" : "GPU"))
      .fact("requested",
            file.empty() ? "--precision " + precision : in_file(precision),
            file.empty() ? "command line, or the program" : file)
      .fact("reason", reason, precision == "fp8" ? "lockstep" : "libtorch " TORCH_VERSION)
      .hint(file.empty() ? "--precision " + instead : in_file(instead));
}

// Without this check, other models would silently compute in bf16.
void require_use(const models::Fp8Scope& scope) {
  if (!scope.was_used()) {
    throw Error(ExitCode::Usage, "cannot compute this model in fp8")
        .fact("requested", "--precision fp8", "command line, or the program")
        .fact("reason", "only lockstep::Gpt2 has fp8 kernels")
        .hint("--precision bf16");
  }
}

// The caller adds autocast in bf16, which applies to all operations without fp8 kernels.
LossFunction in_fp8(const LossFunction& loss) {
  return [loss](torch::nn::Module& model, const Batch& batch) {
    const models::Fp8Scope scope;
    Loss result = loss(model, batch);
    require_use(scope);
    return result;
  };
}

}  // namespace

std::string precision_source(const Flags& flags) {
  const bool is_of_file = flags.file && (flags.file->fp16.value.value_or(false) ||
                                         flags.file->bf16.value.value_or(false));
  return is_of_file ? flags.file->source : "";
}

// The scores are widened as well: metrics in 16 bits would lose digits. float64 results stay as
// they are.
LossFunction in_precision(const LossFunction& loss,
                          const std::string& precision,
                          torch::Device device,
                          const std::string& file) {
  if (precision == "fp32") {
    return loss;
  }
  if (precision == "fp8") {
    if (const std::string reason = models::reason_against_fp8(device); !reason.empty()) {
      refuse(precision, device, reason, file);
    }
    return in_precision(in_fp8(loss), "bf16", device, file);
  }
  const torch::ScalarType type = precision == "fp16" ? torch::kHalf : torch::kBFloat16;
  std::string reason = reason_against(device, type);
  if (!reason.empty() && device.is_cpu() && at::globalContext().userEnabledMkldnn()) {
    const std::string without = reason_against_without_onednn(device, type);
    reason = without.empty() ? without : reason;
  }
  if (!reason.empty()) {
    refuse(precision, device, reason, file);
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
