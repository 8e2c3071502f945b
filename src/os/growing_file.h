// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::os {

// Which file it is, whatever its name is now: it stays the same when the file is renamed.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;

  bool operator==(const FileIdentity&) const = default;
};

// How a file that others write looks now.
struct FileLook {
  FileIdentity identity;
  uint64_t size = 0;

  bool operator==(const FileLook&) const = default;
};

// Nothing where there is no such file, or none that may be looked at.
std::optional<FileLook> find_look(const std::filesystem::path& path);

// A piece of a file that others write, and the file that it was.
struct FilePiece {
  FileLook look;
  std::string bytes;  // fewer than were asked for at the end of the file
};

// Reads at most `most_bytes` from byte `offset` on. Nothing where the file cannot be opened or
// read.
std::optional<FilePiece> find_piece(const std::filesystem::path& path,
                                    uint64_t offset,
                                    size_t most_bytes);

}  // namespace lockstep::os
