// SPDX-License-Identifier: Apache-2.0
#include "training/models/fp8_state.h"

#include <cstring>
#include <vector>

#include "training/models/kernel_calls.h"

namespace lockstep::models {
namespace {

using kernels::Fp8History;
using kernels::Fp8Scale;
using kernels::Fp8Type;
using torch::Tensor;

constexpr auto kSlots = static_cast<int64_t>(Fp8Slot::Count);

bool is_gradient(int64_t slot) {
  return slot >= static_cast<int64_t>(Fp8Slot::MixGradient);
}

Tensor make_history(const Tensor& like, int64_t blocks) {
  std::vector<Fp8History> entries(static_cast<size_t>(blocks * kSlots));
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const bool is_e5m2 = is_gradient(at % kSlots);
    entries[i].limit = kernels::fp8_limit(is_e5m2 ? Fp8Type::E5m2 : Fp8Type::E4m3);
  }
  const auto bytes = static_cast<int64_t>(entries.size() * sizeof(Fp8History));
  const Tensor host = torch::empty({bytes}, torch::kUInt8);
  std::memcpy(host.data_ptr(), entries.data(), static_cast<size_t>(bytes));
  return host.to(like.device());
}

}  // namespace

const Fp8Scale* Fp8Scales::scale(int64_t index) const {
  return static_cast<const Fp8Scale*>(scales_.data_ptr()) + index;
}

Fp8History* Fp8Scales::history(int64_t index) const {
  return records_ ? static_cast<Fp8History*>(history_.data_ptr()) + index : nullptr;
}

int64_t Fp8Scales::of_block(int64_t block, Fp8Slot slot) {
  return block * kSlots + static_cast<int64_t>(slot);
}

Fp8State::Fp8State(const Tensor& like, int64_t blocks)
    : count_(blocks * kSlots), history_(make_history(like, blocks)) {}

void Fp8State::begin(bool trains) {
  // Mode by pass:  training: Measuring until a backward pass has recorded gradients, then Fp8
  //                evaluation: Bf16 before that, then Fp8
  // The scales are a new tensor for each pass, because graphs of earlier passes keep theirs.
  const bool measured = has_gradients_ && trains;
  is_calibrated_ = is_calibrated_ || measured;
  mode_ = is_calibrated_ ? Mode::Fp8 : trains ? Mode::Measuring : Mode::Bf16;
  const Tensor scales = new_workspace(history_, count_ * static_cast<int64_t>(sizeof(Fp8Scale)));
  kernels::refresh_scales(static_cast<Fp8Scale*>(scales.data_ptr()),
                          static_cast<Fp8History*>(history_.data_ptr()),
                          count_,
                          /*advances=*/trains && is_calibrated_,
                          stream());
  scales_ = {scales, history_, trains};
}

}  // namespace lockstep::models
