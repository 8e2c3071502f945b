// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "common/os/files.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {

// The directory in which a checkpoint is written until publish() makes it visible. Without a
// successful publish() the destructor removes it, under whichever of its names it then has.
//
// The Draft holds a lock (flock) on the directory. The lock belongs to the inode, so it survives
// the rename to step-N: until COMPLETE exists, no other writer takes the directory for a leftover.
class Draft {
 public:
  // `token` is part of the name of the directory and differs for each save. A worker that was
  // believed dead and still writes therefore cannot damage a later save of the same step.
  Draft(const std::filesystem::path& root, int64_t step, std::string_view token = "");
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Returns when the bytes are on the disk.
  void write(std::string_view name, std::string_view bytes) const;

  // Makes the directory the checkpoint of its step, atomically. COMPLETE is written last, when the
  // name step-N is on the disk. A directory without COMPLETE is not a checkpoint.
  void publish(std::string_view complete);

 private:
  void replace(std::string_view complete);

  std::filesystem::path path_;
  std::filesystem::path target_;
  std::optional<os::DirectoryLock> lock_;
};

// Adds facts to an error that can be caused by a full disk: space needed, space free, and the
// previous checkpoint.
void explain_space(Error& error, const std::filesystem::path& root, uint64_t bytes);

// Throws Error (Io) if fewer than `bytes` are free.
void require_space(const std::filesystem::path& root, int64_t step, uint64_t bytes);

}  // namespace lockstep::checkpoint
