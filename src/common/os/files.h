// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/os/fd.h"

// Files and directories that survive a crash. Every failure is an Error (Io) that names the path
// and the reason.
namespace lockstep::os {

// A file for reading at any position.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }

  // Fills `buffer` from byte `offset` on; an earlier end of file is an Error, too.
  void read(uint64_t offset, void* buffer, size_t bytes) const;

 private:
  std::filesystem::path path_;
  Fd file_;
  uint64_t size_ = 0;
};

std::string read_file(const std::filesystem::path& path);

// Whether this process can read and write it. For a device, this includes the permission of its
// cgroup; the device is not opened.
bool is_usable(const std::filesystem::path& path);

// Creates or overwrites `path`. On return its data is on disk, but its name might not be.
void write_file(const std::filesystem::path& path, std::string_view bytes);

// Replaces `path` atomically: a reader, or a crash, sees the old or the new contents. On return the
// new contents are on disk.
void atomic_write(const std::filesystem::path& path, std::string_view bytes);

// On return, names created, renamed or removed in this directory are on disk.
void sync_directory(const std::filesystem::path& directory);

void make_directories(const std::filesystem::path& directory);

// Renames atomically within a file system; replaces a file or an empty directory at `to`.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

// Swaps two names atomically; false, without any change, if the file system does not support it.
bool exchange_paths(const std::filesystem::path& one, const std::filesystem::path& other);

// Makes `link` a symbolic link to `target`; atomic if it was a link before.
void replace_link(const std::filesystem::path& link, const std::filesystem::path& target);

// Removes a file or a directory recursively; a missing path is not an error.
void remove_tree(const std::filesystem::path& path);

// Marks a directory as in use by a living process. The mark survives a rename of the directory and
// ends with the process, even if that is killed.
class DirectoryLock {
 public:
  // Nothing if another process holds the lock. On a file system without locks, always succeeds.
  static std::optional<DirectoryLock> find(const std::filesystem::path& directory);

 private:
  explicit DirectoryLock(Fd directory) : directory_(std::move(directory)) {}

  Fd directory_;
};

// A new, empty directory that only this user can read, in `parent` or in TMPDIR; the destructor
// removes it recursively.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string_view prefix = "lockstep");
  TemporaryDirectory(std::string_view prefix, const std::filesystem::path& parent);
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Replaces a file atomically for readers; does not wait for the disk.
void replace_file(const std::filesystem::path& path, std::string_view text);

// Writes a file that only this user can read, completely or not at all. Throws an Error (74).
void write_private(const std::filesystem::path& path, std::string_view text);

// The text of a file that belongs to this user and that no other user can read or write; nothing
// otherwise.
std::optional<std::string> find_private(const std::filesystem::path& path);

}  // namespace lockstep::os
