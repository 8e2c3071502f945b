// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::data {

// Bytes together with what keeps them alive: a mapped file or memory of our own.
struct Bytes {
  std::shared_ptr<const void> owner;
  std::span<const uint8_t> span;

  Bytes from(size_t offset) const { return {owner, span.subspan(offset)}; }
};

Bytes own_bytes(std::vector<uint8_t> bytes);

// What `path` holds, and whether it lay there compressed.
struct FileContent {
  Bytes bytes;
  bool was_compressed = false;
};

// Maps the file as it is.
Bytes map_content(const std::filesystem::path& path);

// Maps the file; unpacks it if it begins as gzip does, whatever its name. Throws an Error with the
// offset in the compressed file where unpacking stopped.
FileContent read_content(const std::filesystem::path& path);

}  // namespace lockstep::data
