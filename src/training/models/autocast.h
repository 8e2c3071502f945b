// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <torch/torch.h>

namespace lockstep::models {

// The type that this thread computes matrix products and convolutions in on `device`, if autocast
// is on.
std::optional<torch::ScalarType> autocast_type(torch::DeviceType device);

// While it lives, this thread computes what gains by it on `device` in `type`, and all else in
// float32; weights stay as they are. Without a type: everything in the type that it has. On the way
// out the state before is back, and the copies of weights that were made are dropped.
class AutocastScope {
 public:
  AutocastScope(torch::DeviceType device, std::optional<torch::ScalarType> type);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  torch::DeviceType device_;
  bool was_on_;
  torch::ScalarType old_type_;
};

}  // namespace lockstep::models
