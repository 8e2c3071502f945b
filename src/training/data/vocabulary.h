// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

namespace lockstep::data {

// A rule that merges two adjacent tokens into one.
struct Merge {
  int32_t rank;  // merges with a lower rank are applied first
  int32_t token;
};

struct Vocabulary {
  std::vector<std::string> bytes;  // by token id
  std::array<int32_t, 256> of_byte{};
  std::unordered_map<uint64_t, Merge> merges;  // by merge_key()
  int32_t end_of_text = -1;
};

inline uint64_t merge_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32U | static_cast<uint32_t>(right);
}

// Reads encoder.json and vocab.bpe, or vocab.json and merges.txt.
Vocabulary read_vocabulary(const std::filesystem::path& folder);

}  // namespace lockstep::data
