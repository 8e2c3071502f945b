// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "data/bytes.h"

// Tokens in a file, as llm.c writes them: 256 numbers of 32 bits (magic 20240520, version 1, the
// count of tokens, zeros), then each token as 16 bits, all with the lowest byte first. Files of
// nanoGPT are the same without the header, and are read too.
namespace lockstep::data {

// Writes one, all of it or nothing.
void write_tokens(const std::filesystem::path& path, std::span<const int32_t> tokens);

// The tokens of a file, mapped into memory.
class TokenFile {
 public:
  // Throws an Error that names the byte at which the file is not what it should be.
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
