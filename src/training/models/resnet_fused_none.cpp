// SPDX-License-Identifier: Apache-2.0
#include "lockstep/error.h"
#include "training/models/resnet_fused.h"

namespace lockstep::models {
namespace {

[[noreturn]] torch::Tensor impossible() {
  throw Error(ExitCode::Bug, "cannot use fused parts: this build has none");
}

}  // namespace

class ConvEngine {};

ConvEnginePtr find_conv_engine(const torch::Tensor& /*weight*/, const ConvEnginePtr& /*last*/) {
  return nullptr;
}

torch::Tensor fused_stem(const ConvEnginePtr& /*engine*/,
                         const torch::Tensor& /*images*/,
                         const StemCall& /*call*/) {
  return impossible();
}

torch::Tensor fused_block(const ConvEnginePtr& /*engine*/,
                          const torch::Tensor& /*input*/,
                          const std::vector<ConvNorm>& /*path*/,
                          const std::optional<ConvNorm>& /*shortcut*/) {
  return impossible();
}

torch::Tensor fused_mean(const torch::Tensor& /*features*/) {
  return impossible();
}

torch::Tensor fused_class_entropy(const torch::Tensor& /*scores*/,
                                  const torch::Tensor& /*targets*/,
                                  double /*smoothing*/) {
  return impossible();
}

}  // namespace lockstep::models
