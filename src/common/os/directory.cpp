// SPDX-License-Identifier: Apache-2.0
#include "common/os/directory.h"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fmt/format.h>
#include <memory>
#include <string_view>
#include <sys/stat.h>

#include "common/os/system_error.h"
#include "lockstep/error.h"

namespace lockstep::os {
namespace {

struct Close {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

// d_type costs nothing; fstatat() costs a round trip to the server of a network file system for
// each file, minutes for the folders of ImageNet. Links must be followed, and some file systems
// (XFS without ftype, some FUSE file systems) report DT_UNKNOWN.
bool is_folder(DIR* stream, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN && entry.d_type != DT_LNK) {
    return entry.d_type == DT_DIR;
  }
  struct stat status = {};
  return ::fstatat(::dirfd(stream), &entry.d_name[0], &status, 0) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

// readdir() returns null both at the end and on failure, and only errno distinguishes them. errno
// is reset before each call because the work in between can set it.
Listing list_directory(const std::filesystem::path& directory) {
  const auto refuse = [&directory](int number) {
    return system_error(ExitCode::Io, fmt::format("cannot list {}", directory.string()), number);
  };
  const std::unique_ptr<DIR, Close> stream(::opendir(directory.c_str()));
  if (!stream) {
    throw refuse(errno);
  }
  Listing listing;
  errno = 0;
  // Thread-safe as long as each thread has its own stream.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = &entry->d_name[0];
    if (name != "." && name != "..") {
      (is_folder(stream.get(), *entry) ? listing.folders : listing.files).emplace_back(name);
    }
    errno = 0;
  }
  if (errno != 0) {
    throw refuse(errno);
  }
  std::ranges::sort(listing.folders);
  std::ranges::sort(listing.files);
  return listing;
}

std::vector<std::string> find_names(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

bool exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace lockstep::os
