// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <torch/types.h>
#include <vector>

namespace lockstep::strategy {

// Calls back as soon as backward has added to the gradient of a parameter, during the lifetime of
// this object. The callback runs on a thread of autograd and must not throw.
class GradientHooks {
 public:
  using Callback = std::function<void(size_t parameter)>;

  GradientHooks(const std::vector<torch::Tensor>& parameters, Callback callback);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep::strategy
