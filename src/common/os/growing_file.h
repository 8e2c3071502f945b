// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::os {

// The identity of a file, independent of its name: it does not change when the file is renamed.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;

  bool operator==(const FileIdentity&) const = default;
};

// The current state of a file that other processes write.
struct FileLook {
  FileIdentity identity;
  uint64_t size = 0;

  bool operator==(const FileLook&) const = default;
};

// Nothing if the file does not exist or cannot be examined.
std::optional<FileLook> find_look(const std::filesystem::path& path);

// A part of a file that other processes write, and the identity of the file.
struct FilePiece {
  FileLook look;
  std::string bytes;  // shorter than requested at the end of the file
};

// Reads at most `max_bytes` from byte `offset` on. Nothing if the file cannot be opened or read.
std::optional<FilePiece> find_piece(const std::filesystem::path& path,
                                    uint64_t offset,
                                    size_t max_bytes);

}  // namespace lockstep::os
