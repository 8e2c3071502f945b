// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::data {

// Bytes and their owner: a mapped file or allocated memory.
struct Bytes {
  std::shared_ptr<const void> owner;
  std::span<const uint8_t> span;

  Bytes from(size_t offset) const { return {owner, span.subspan(offset)}; }
};

Bytes own_bytes(std::vector<uint8_t> bytes);

// The content of a file, and whether the file was compressed.
struct FileContent {
  Bytes bytes;
  bool was_compressed = false;
};

// Maps the file without decompression.
Bytes map_content(const std::filesystem::path& path);

// Maps the file, and unpacks it if it begins with the magic number of gzip, regardless of its name.
// Throws an Error with the offset in the compressed file at which unpacking failed.
FileContent read_content(const std::filesystem::path& path);

}  // namespace lockstep::data
