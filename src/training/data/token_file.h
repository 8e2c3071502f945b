// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "training/data/bytes.h"

// Token files of llm.c, little-endian:
//
//   byte 0     magic number 20240520, 32 bits
//   byte 4     version 1, 32 bits
//   byte 8     number of tokens, 32 bits
//   byte 12    zeros
//   byte 1024  tokens, 16 bits each
//
// Files of nanoGPT have no header, and are also read.
namespace lockstep::data {

// Writes a file with header atomically.
void write_tokens(const std::filesystem::path& path, std::span<const int32_t> tokens);

// The tokens of a file, mapped into memory.
class TokenFile {
 public:
  // Throws an Error with the offset of the first wrong byte.
  explicit TokenFile(const std::filesystem::path& path);

  int64_t size() const { return static_cast<int64_t>(bytes_.span.size() / 2); }

  int32_t operator[](int64_t index) const {
    const auto at = static_cast<size_t>(index) * 2;
    return bytes_.span[at] | bytes_.span[at + 1] << 8;
  }

 private:
  Bytes bytes_;
};

}  // namespace lockstep::data
