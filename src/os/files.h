// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "os/fd.h"

// Files and directories that survive a crash. Every failure is an Error (Io) that names the path
// and what the system says.
namespace lockstep::os {

// A file opened for reading at any place.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }

  // Fills `buffer` from byte `offset` on; an end before that is an Error too.
  void read(uint64_t offset, void* buffer, size_t bytes) const;

 private:
  std::filesystem::path path_;
  Fd file_;
  uint64_t size_ = 0;
};

std::string read_file(const std::filesystem::path& path);

// Whether this process may read and write it; of a device also whether its cgroup lets it, and
// without opening it.
bool is_usable(const std::filesystem::path& path);

// Makes or overwrites `path`; on return the bytes are on the disk, its name perhaps not yet.
void write_file(const std::filesystem::path& path, std::string_view bytes);

// Replaces `path` in one instant: a reader, or a crash, sees the old bytes or the new ones. On
// return the new ones are on the disk.
void atomic_write(const std::filesystem::path& path, std::string_view bytes);

// Names made, renamed or removed in this directory are on the disk when it returns.
void sync_directory(const std::filesystem::path& directory);

void make_directories(const std::filesystem::path& directory);

// Renames atomically within one file system; an empty directory or a file at `to` is replaced.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

// Swaps two names in one instant; false, and nothing done, where the file system cannot do it.
bool exchange_paths(const std::filesystem::path& one, const std::filesystem::path& other);

// Makes `link` a symbolic link to `target`, in one instant where it was one before.
void replace_link(const std::filesystem::path& link, const std::filesystem::path& target);

// Removes a file or a directory with all that is in it; nothing there is fine.
void remove_tree(const std::filesystem::path& path);

// Marks a directory as in use by a living process. It stays so when the directory is renamed, and
// ends with the process, however that dies.
class DirectoryLock {
 public:
  // Nothing where another process has it locked; where the file system knows no locks, all are
  // given.
  static std::optional<DirectoryLock> find(const std::filesystem::path& directory);

 private:
  explicit DirectoryLock(Fd directory) : directory_(std::move(directory)) {}

  Fd directory_;
};

// A new, empty directory, removed with all that is in it at the end of its life.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string_view prefix = "lockstep");
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Replaces a file, for readers at any moment all of it or nothing; does not wait for the disk.
void replace_file(const std::filesystem::path& path, std::string_view text);

// Writes a file that only this user may read, all of it or nothing. Throws an Error (74).
void write_private(const std::filesystem::path& path, std::string_view text);

// The text of a file that is this user's and that nobody else may read or write; nothing otherwise.
std::optional<std::string> find_private(const std::filesystem::path& path);

}  // namespace lockstep::os
