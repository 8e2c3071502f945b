// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <torch/optim.h>
#include <torch/types.h>
#include <type_traits>

namespace lockstep::optim {

// libtorch 1.13 uses the address of the parameter as text for the key of its state, 2.x the address
// itself.
using StateMap = std::decay_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;

template <typename Map = StateMap>
typename Map::key_type state_key(const torch::Tensor& parameter) {
  if constexpr (std::is_same_v<typename Map::key_type, std::string>) {
    std::ostringstream text;
    text << parameter.unsafeGetTensorImpl();
    return text.str();
  } else {
    return parameter.unsafeGetTensorImpl();
  }
}

}  // namespace lockstep::optim
