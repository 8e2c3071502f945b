// SPDX-License-Identifier: Apache-2.0
#include "lockstep/error.h"
#include "training/models/gpt2_fused.h"

namespace lockstep::models {
namespace {

[[noreturn]] torch::Tensor impossible() {
  throw Error(ExitCode::Bug, "cannot use fused parts: this build has none");
}

}  // namespace

class FusedEngine {};

FusedEnginePtr make_fused_engine(const torch::Tensor& /*like*/,
                                 int64_t /*width*/,
                                 int64_t /*heads*/) {
  return nullptr;
}

std::string reason_against_fp8(torch::Device device) {
  return device.is_cuda() ? "this build of lockstep has no CUDA kernels" : "fp8 needs a GPU";
}

void begin_pass(const FusedEnginePtr& /*engine*/,
                const torch::Tensor& /*like*/,
                int64_t /*blocks*/,
                bool /*is_fp8*/,
                bool /*trains*/) {
  impossible();
}

bool computes_in_bf16(const torch::Tensor& /*weight*/) {
  return false;
}

torch::Tensor fused_block(const FusedEnginePtr& /*engine*/,
                          const torch::Tensor& /*input*/,
                          const FusedBlock& /*block*/,
                          int64_t /*heads*/) {
  impossible();
}

torch::Tensor fused_norm(const torch::Tensor& /*input*/, const FusedNorm& /*norm*/) {
  impossible();
}

torch::Tensor fused_embedding(const torch::Tensor& /*tokens*/,
                              const torch::Tensor& /*token_table*/,
                              const torch::Tensor& /*position_table*/) {
  impossible();
}

torch::Tensor fused_token_loss(const FusedEnginePtr& /*engine*/,
                               const torch::Tensor& /*hidden*/,
                               const torch::Tensor& /*token_table*/,
                               const torch::Tensor& /*targets*/) {
  impossible();
}

}  // namespace lockstep::models
