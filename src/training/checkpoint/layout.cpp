// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/layout.h"

#include <algorithm>
#include <fmt/format.h>
#include <system_error>

#include "common/base/text.h"
#include "common/os/files.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kPartialPrefix = ".step-";
constexpr std::string_view kPartialSuffix = ".partial";
constexpr std::string_view kTrashPrefix = ".trash-";

// Collected before anything is changed: whether a directory iterator shows entries that are renamed
// or removed meanwhile is unspecified (POSIX readdir).
std::vector<std::filesystem::path> children(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  std::filesystem::directory_iterator at(root, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    paths.push_back(at->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw Error(ExitCode::Io,
                fmt::format("cannot read directory {}: {}", root.string(), error.message()));
  }
  return paths;
}

bool has_complete(const std::filesystem::path& directory) {
  std::error_code ignored;
  return std::filesystem::exists(directory / kCompleteFile, ignored);
}

bool is_leftover(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(kTrashPrefix) ||
         (name.starts_with(kPartialPrefix) && name.ends_with(kPartialSuffix)) ||
         (find_step(name) && !has_complete(path));
}

}  // namespace

std::string directory_name(int64_t step) {
  return fmt::format("{}{:08}", kStepPrefix, step);
}

std::optional<int64_t> find_step(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) {
    return std::nullopt;
  }
  const std::optional<int64_t> step = find_integer(name.substr(kStepPrefix.size()));
  // Only the exact spelling: "step-7" and "step-00000007.bak" are not checkpoints.
  return step && *step >= 0 && directory_name(*step) == name ? step : std::nullopt;
}

std::filesystem::path partial_path(const std::filesystem::path& root,
                                   int64_t step,
                                   std::string_view token) {
  return root /
         fmt::format(
             ".{}{}{}{}", directory_name(step), token.empty() ? "" : ".", token, kPartialSuffix);
}

std::string shard_name(int rank, int writers) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", rank, writers);
}

std::string index_name(int rank, int writers) {
  return fmt::format("shard-{:05}-of-{:05}.json", rank, writers);
}

// The rename makes the checkpoint disappear at once. Removing it in place would leave a directory
// with COMPLETE but without some of its files after a crash.
void discard(const std::filesystem::path& directory) {
  const std::filesystem::path root = directory.parent_path();
  const std::filesystem::path trash =
      root / fmt::format("{}{}", kTrashPrefix, directory.filename().string());
  os::remove_tree(trash);
  os::rename_path(directory, trash);
  os::sync_directory(root);
  os::remove_tree(trash);
}

std::filesystem::path set_aside(const std::filesystem::path& root, int64_t step) {
  std::vector<CheckpointEntry> later = list_checkpoints(root);
  std::erase_if(later, [step](const CheckpointEntry& entry) { return entry.step <= step; });
  if (later.empty()) {
    return {};
  }
  std::filesystem::path aside;
  std::error_code unknown;
  for (int number = 1; aside.empty() || std::filesystem::exists(aside, unknown); ++number) {
    aside = root / fmt::format("set-aside-{}", number);
  }
  // The link is removed before its target moves, so that it never dangles.
  os::make_directories(aside);
  const std::filesystem::path best = std::filesystem::read_symlink(root / kBestLink, unknown);
  for (const CheckpointEntry& entry : later) {
    if (entry.directory.filename() == best) {
      os::remove_tree(root / kBestLink);
    }
    os::rename_path(entry.directory, aside / entry.directory.filename());
  }
  os::sync_directory(aside);
  os::sync_directory(root);
  return aside;
}

void remove_leftovers(const std::filesystem::path& root) {
  for (const std::filesystem::path& path : children(root)) {
    if (!is_leftover(path)) {
      continue;
    }
    // A live writer holds the lock of its directory (Draft). Getting the lock means that it is
    // gone.
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored) || os::DirectoryLock::find(path)) {
      os::remove_tree(path);
    }
  }
}

}  // namespace lockstep::checkpoint

namespace lockstep {

std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& root) {
  std::vector<CheckpointEntry> entries;
  for (const std::filesystem::path& path : checkpoint::children(root)) {
    const std::optional<int64_t> step = checkpoint::find_step(path.filename().string());
    if (step && checkpoint::has_complete(path)) {
      entries.push_back({.step = *step, .directory = path});
    }
  }
  std::ranges::sort(entries, {}, &CheckpointEntry::step);
  return entries;
}

}  // namespace lockstep
