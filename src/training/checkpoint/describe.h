// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <torch/types.h>
#include <vector>

namespace lockstep::checkpoint {

// "float [32, 1, 5, 5]", for messages.
inline std::string describe(torch::ScalarType type, const std::vector<int64_t>& shape) {
  std::string word = c10::toString(type);
  for (char& letter : word) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return fmt::format("{} [{}]", word, fmt::join(shape, ", "));
}

inline std::string describe(const torch::Tensor& tensor) {
  return describe(tensor.scalar_type(), tensor.sizes().vec());
}

}  // namespace lockstep::checkpoint
