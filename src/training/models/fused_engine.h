// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <torch/autograd.h>
#include <torch/types.h>

#include "training/kernels/matmul.h"
#include "training/models/fp8_state.h"
#include "training/models/gpt2_fused.h"

// State shared by the fused parts of GPT-2, in bfloat16 and in fp8.
namespace lockstep::models {

class FusedEngine {
 public:
  kernels::Matmul matmul;
  std::optional<Fp8State> fp8;  // created by the first pass in fp8
  bool is_fp8 = false;          // whether fp8 is requested for the current pass

  Fp8State::Mode mode() const { return is_fp8 ? fp8->mode() : Fp8State::Mode::Bf16; }
};

// Keeps an object alive as long as the autograd graph that needs it.
template <typename Held>
struct Holder : torch::CustomClassHolder {
  explicit Holder(Held what) : held(std::move(what)) {}
  Held held;
};

template <typename Held>
void hold(torch::autograd::AutogradContext* context, const char* name, const Held& what) {
  context->saved_data[name] = c10::IValue::make_capsule(c10::make_intrusive<Holder<Held>>(what));
}

template <typename Held>
const Held& held_by(torch::autograd::AutogradContext* context, const char* name) {
  const auto capsule = context->saved_data[name].toCapsule();
  return static_cast<Holder<Held>&>(*capsule).held;
}

// Computes a block like fused_block(), with matrix products in fp8.
torch::Tensor fp8_block(const FusedEnginePtr& engine,
                        const torch::Tensor& input,
                        const FusedBlock& block,
                        int64_t heads);

}  // namespace lockstep::models
