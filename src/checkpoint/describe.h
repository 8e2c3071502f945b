// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <torch/torch.h>

namespace lockstep::checkpoint {

// "float [32, 1, 5, 5]", for messages.
inline std::string describe(const torch::Tensor& tensor) {
  std::string type = c10::toString(tensor.scalar_type());
  for (char& letter : type) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return fmt::format("{} [{}]", type, fmt::join(tensor.sizes().vec(), ", "));
}

}  // namespace lockstep::checkpoint
