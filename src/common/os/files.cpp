// SPDX-License-Identifier: Apache-2.0
//
// Durability in three steps, in this order:
//
//   write ".NAME.TID.partial", fsync it    the contents are on disk, but without the name
//   rename it to NAME                      readers see the old or the new file
//   fsync the directory                    the name is on disk
//
// Without the first fsync, a power failure after the rename can leave an empty file under the final
// name: file systems are free to write the directory before the data. replace_file() leaves out
// both calls of fsync; it is for files whose loss in a power failure is tolerable.
#include "common/os/files.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "common/os/fd.h"
#include "lockstep/error.h"

namespace lockstep::os {
namespace {

[[noreturn]] void refuse(std::string_view verb, const std::filesystem::path& path, int error) {
  throw Error(
      ExitCode::Io,
      fmt::format("cannot {} {}: {}", verb, path.string(), std::generic_category().message(error)));
}

// Repeats a system call that a signal interrupted. The agents handle signals through a SignalFd,
// but a library in the process can install handlers.
template <typename Call>
auto retry(Call call) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) {
      return result;
    }
  }
}

// O_CLOEXEC everywhere: a worker that is started at the same time by another thread must not
// inherit the file.
Fd open_or_refuse(std::string_view verb, const std::filesystem::path& path, int flags) {
  constexpr mode_t kForAllThatUmaskLets = 0666;
  const int number =
      retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, kForAllThatUmaskLets); });
  if (number < 0) {
    refuse(verb, path, errno);
  }
  return Fd(number);
}

void write_all(const Fd& file, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written =
        retry([&] { return ::write(file.number(), bytes.data(), bytes.size()); });
    if (written < 0) {
      refuse("write", path, errno);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

// A hidden name in the same directory, unique for each living thread of a machine.
std::filesystem::path temporary_name(const std::filesystem::path& path) {
  return path.parent_path() / fmt::format(".{}.{}.partial", path.filename().string(), ::gettid());
}

// Removes `name` in the directory `parent` recursively; returns an errno or 0.
//
// Not std::filesystem::remove_all: the wheels of PyTorch export that function from their own copy
// of libstdc++, and a program that links both crashes in it.
//
// O_NOFOLLOW and paths relative to `parent`: a directory that another process replaces by a link
// during the call is not followed out of the tree. An entry that disappears meanwhile counts as
// removed. Linux reports EISDIR for unlink() of a directory, POSIX and some file systems EPERM.
int remove_below(int parent, const char* name) {
  if (::unlinkat(parent, name, 0) == 0 || errno == ENOENT) {
    return 0;
  }
  if (errno != EISDIR && errno != EPERM) {
    return errno;
  }
  const int number = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (number < 0) {
    return errno;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(number), &::closedir);
  if (entries == nullptr) {
    ::close(number);
    return ENOMEM;
  }
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view child = entry->d_name;
    if (child == "." || child == "..") {
      continue;
    }
    if (const int error = remove_below(number, entry->d_name); error != 0) {
      return error;
    }
  }
  return ::unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : errno;
}

std::filesystem::path directory_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

Fd open_directory(const std::filesystem::path& directory) {
  return open_or_refuse("open directory", directory, O_RDONLY | O_DIRECTORY);
}

// Writes the names in an open directory to the disk. `directory` is for the message only.
void sync_names(const Fd& opened, const std::filesystem::path& directory) {
  const int error = retry([&] { return ::fsync(opened.number()); }) == 0 ? 0 : errno;
  // Some network file systems do not support it, and write names through anyway.
  if (error != 0 && error != EINVAL && error != ENOTSUP) {
    refuse("write directory", directory, error);
  }
}

}  // namespace

// open() succeeds on a directory; without the check, the failure would be reported by a later read.
InputFile::InputFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open_or_refuse("read", path_, O_RDONLY)) {
  struct stat status = {};
  if (::fstat(file_.number(), &status) != 0) {
    refuse("read", path_, errno);
  }
  if (S_ISDIR(status.st_mode)) {
    refuse("read", path_, EISDIR);
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

// pread() does not move a file offset, so several threads can read the same file.
void InputFile::read(uint64_t offset, void* buffer, size_t bytes) const {
  auto* to = static_cast<char*>(buffer);
  while (bytes > 0) {
    const ssize_t got =
        retry([&] { return ::pread(file_.number(), to, bytes, static_cast<off_t>(offset)); });
    if (got < 0) {
      refuse("read", path_, errno);
    }
    if (got == 0) {
      throw Error(ExitCode::Io, fmt::format("cannot read {}: it ends early", path_.string()))
          .fact("byte", std::to_string(offset));
    }
    to += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
}

std::string read_file(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string bytes(file.size(), '\0');
  file.read(0, bytes.data(), bytes.size());
  return bytes;
}

bool is_usable(const std::filesystem::path& path) {
  return ::access(path.c_str(), R_OK | W_OK) == 0;
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  Fd file = open_or_refuse("create", path, O_WRONLY | O_CREAT | O_TRUNC);
  write_all(file, bytes, path);
  if (retry([&] { return ::fsync(file.number()); }) != 0) {
    refuse("write", path, errno);
  }
  // Some file systems report a lost write only on close. After EINTR the descriptor is closed
  // nevertheless, and fsync has already covered every byte.
  if (::close(file.release()) != 0 && errno != EINTR) {
    refuse("write", path, errno);
  }
}

void atomic_write(const std::filesystem::path& path, std::string_view bytes) {
  const std::filesystem::path temporary = temporary_name(path);
  const std::filesystem::path directory = directory_of(path);
  Fd names;
  try {
    write_file(temporary, bytes);
    // Opened before the name exists: as soon as another process sees the name, it may rename the
    // directory, as rank 0 does with a checkpoint when the last index has appeared.
    names = open_directory(directory);
    rename_path(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_names(names, directory);
}

void sync_directory(const std::filesystem::path& directory) {
  sync_names(open_directory(directory), directory);
}

void make_directories(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    refuse("create directory", directory, error.value());
  }
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    refuse("rename", from.string() + " to " + to.string(), errno);
  }
}

// NFS and several parallel file systems have no RENAME_EXCHANGE and report EINVAL.
bool exchange_paths(const std::filesystem::path& one, const std::filesystem::path& other) {
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0) {
    return true;
  }
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) {
    refuse("exchange", one.string() + " and " + other.string(), errno);
  }
  return false;
}

// symlink() cannot replace an existing name. A leftover temporary link of a killed process with the
// same thread number would make it fail, so it is removed first.
void replace_link(const std::filesystem::path& link, const std::filesystem::path& target) {
  const std::filesystem::path temporary = temporary_name(link);
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0) {
    refuse("create link", link, errno);
  }
  try {
    rename_path(temporary, link);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(directory_of(link));
}

void remove_tree(const std::filesystem::path& path) {
  if (const int error = remove_below(AT_FDCWD, path.c_str()); error != 0) {
    refuse("remove", path, error);
  }
}

// flock() belongs to the open file, not to the process or the path: the kernel releases it when the
// last descriptor is closed, and a rename does not affect it. Errors other than EWOULDBLOCK (a file
// system without locks) count as success.
std::optional<DirectoryLock> DirectoryLock::find(const std::filesystem::path& directory) {
  Fd file = open_or_refuse("open directory", directory, O_RDONLY | O_DIRECTORY);
  if (::flock(file.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return std::nullopt;
  }
  return DirectoryLock(std::move(file));
}

static std::filesystem::path temporary_parent() {
  std::error_code error;
  std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (error) {
    refuse("create directory in", "TMPDIR", error.value());
  }
  return parent;
}

TemporaryDirectory::TemporaryDirectory(std::string_view prefix)
    : TemporaryDirectory(prefix, temporary_parent()) {}

TemporaryDirectory::TemporaryDirectory(std::string_view prefix,
                                       const std::filesystem::path& parent) {
  std::string name = (parent / fmt::format("{}-XXXXXX", prefix)).string();
  if (::mkdtemp(name.data()) == nullptr) {
    refuse("create directory", name, errno);
  }
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  remove_below(AT_FDCWD, path_.c_str());
}

void replace_file(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path temporary = temporary_name(path);
  try {
    write_all(open_or_refuse("create", temporary, O_WRONLY | O_CREAT | O_TRUNC), text, temporary);
    rename_path(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

// O_EXCL makes sure that this call creates the file: with the mode of an existing file, or through
// a link that another user has placed, the secret could be readable. The texts are keys of some
// hundred bytes, for which a regular file never accepts only a part unless the disk is full.
void write_private(const std::filesystem::path& path, std::string_view text) {
  constexpr mode_t kOnlyMine = 0600;
  const std::filesystem::path temporary = temporary_name(path);
  ::unlink(temporary.c_str());
  const Fd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOnlyMine));
  if (!file.is_open()) {
    refuse("write", path, errno);
  }
  const auto written = retry([&] { return ::write(file.number(), text.data(), text.size()); });
  if (written != static_cast<ssize_t>(text.size())) {
    const int error = written < 0 ? errno : ENOSPC;
    ::unlink(temporary.c_str());
    refuse("write", path, error);
  }
  rename_path(temporary, path);
}

// The checks use the open file, not the path, so that the file cannot be exchanged in between.
std::optional<std::string> find_private(const std::filesystem::path& path) {
  constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != ::geteuid() || (status.st_mode & kOthers) != 0) {
    return std::nullopt;
  }
  std::string text(static_cast<size_t>(status.st_size), '\0');
  const auto count = retry([&] { return ::read(file.number(), text.data(), text.size()); });
  if (count != status.st_size) {
    return std::nullopt;
  }
  return text;
}

}  // namespace lockstep::os
