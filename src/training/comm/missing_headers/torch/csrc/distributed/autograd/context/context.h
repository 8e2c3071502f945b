// SPDX-License-Identifier: Apache-2.0
//
// libtorch 1.13 does not ship this header, though its c10d/reducer.hpp includes it (pytorch#88006).
// The reducer only names the two types: it holds a shared_ptr and a raw pointer, so its layout does
// not depend on the class. This folder is searched last; a libtorch that ships the header wins.
#pragma once

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

namespace torch::distributed::autograd {

class DistAutogradContext {
 public:
  using GradCallback = std::function<bool(at::Tensor&)>;
  DistAutogradContext() = delete;
};

using ContextPtr = std::shared_ptr<DistAutogradContext>;

}  // namespace torch::distributed::autograd
