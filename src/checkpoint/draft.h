// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "lockstep/error.h"
#include "os/files.h"

namespace lockstep::checkpoint {

// The directory that a checkpoint is written in before it is one. Whatever it is called when it
// goes away without publish(), it leaves nothing behind.
class Draft {
 public:
  // `token` tells it from what a writer that is believed dead may still write.
  Draft(const std::filesystem::path& root, int64_t step, std::string_view token = "");
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void write(std::string_view name, std::string_view bytes) const;

  // Makes it the checkpoint of its step, in one instant. COMPLETE comes last, when the name is on
  // the disk. Until then the next commit would remove it.
  void publish(std::string_view complete);

 private:
  void replace(std::string_view complete);

  std::filesystem::path path_;
  std::filesystem::path target_;
  std::optional<os::DirectoryLock> lock_;
};

// Tells what a person with a full disk wants to know.
void explain_space(Error& error, const std::filesystem::path& root, uint64_t bytes);

// Throws Error (Io) where fewer than `bytes` are free.
void require_space(const std::filesystem::path& root, int64_t step, uint64_t bytes);

}  // namespace lockstep::checkpoint
