// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/draft.h"

#include <fmt/format.h>
#include <system_error>

#include "common/base/log.h"
#include "common/base/text.h"
#include "lockstep/checkpoint.h"
#include "training/checkpoint/layout.h"

namespace lockstep::checkpoint {
namespace {

std::string describe_previous(const std::filesystem::path& root) {
  try {
    const std::vector<CheckpointEntry> entries = list_checkpoints(root);
    return entries.empty() ? "no earlier checkpoint exists"
                           : fmt::format("the previous checkpoint, {}, is untouched",
                                         entries.back().directory.filename().string());
  } catch (const Error& error) {
    return error.sentence();
  }
}

}  // namespace

Draft::Draft(const std::filesystem::path& root, int64_t step, std::string_view token)
    : path_(partial_path(root, step, token)), target_(root / directory_name(step)) {
  os::remove_tree(path_);
  os::make_directories(path_);
  lock_ = os::DirectoryLock::find(path_);
}

Draft::~Draft() {
  if (path_.empty()) {
    return;
  }
  try {
    os::remove_tree(path_);
  } catch (const Error& error) {
    log::warn("could not remove an incomplete checkpoint: {}", error.what());
  }
}

void Draft::write(std::string_view name, std::string_view bytes) const {
  os::write_file(path_ / name, bytes);
}

// A machine can crash between any two of these steps, and a file system can write names and
// contents to the disk in another order than the calls. Each fsync below fixes one point of that
// order:
//
//   fsync path_        the names of all files are on the disk before the rename
//   rename, fsync root step-N exists and has all files, but no COMPLETE: still not a checkpoint
//   atomic_write       writes COMPLETE under a temporary name, fsyncs it, renames it and fsyncs the
//                      directory: COMPLETE appears with its full content or not at all
//
// A crash before the last rename leaves a directory that remove_leftovers() deletes; a crash after
// it leaves a checkpoint.
void Draft::publish(std::string_view complete) {
  os::sync_directory(path_);
  const std::filesystem::path root = target_.parent_path();
  std::error_code unknown;
  if (std::filesystem::exists(target_, unknown)) {
    replace(complete);
  } else {
    os::rename_path(path_, target_);
    path_ = target_;
    os::sync_directory(root);
    os::atomic_write(path_ / kCompleteFile, complete);
  }
  os::sync_directory(root);
  path_.clear();
}

// Replaces an existing checkpoint of the same step. COMPLETE is written before the name changes, so
// that at every moment the name refers to a complete checkpoint, the old or the new one. A file
// system without atomic exchange has a gap between the two renames in which neither exists.
void Draft::replace(std::string_view complete) {
  os::atomic_write(path_ / kCompleteFile, complete);
  if (os::exchange_paths(path_, target_)) {
    os::sync_directory(target_.parent_path());
    os::remove_tree(path_);
  } else {
    discard(target_);
    os::rename_path(path_, target_);
  }
}

void explain_space(Error& error, const std::filesystem::path& root, uint64_t bytes) {
  error.fact("required", format_bytes(bytes), "this checkpoint");
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(root, unknown);
  if (!unknown) {
    error.fact("free", format_bytes(space.available), root.string());
  }
  error.fact("kept", describe_previous(root));
}

void require_space(const std::filesystem::path& root, int64_t step, uint64_t bytes) {
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(root, unknown);
  if (unknown || space.available >= bytes) {
    return;
  }
  Error error(
      ExitCode::Io,
      fmt::format("cannot save checkpoint {}: not enough free space", directory_name(step)));
  explain_space(error, root, bytes);
  error.hint("--keep 1, to keep fewer checkpoints, or --run-dir DIR on another disk");
  throw error;
}

}  // namespace lockstep::checkpoint
