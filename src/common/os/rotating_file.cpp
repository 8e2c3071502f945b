// SPDX-License-Identifier: Apache-2.0
#include "common/os/rotating_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace lockstep::os {
namespace {

namespace fs = std::filesystem;

fs::path part(const fs::path& path, int number) {
  return number == 0 ? path : fs::path(fmt::format("{}.{}", path.string(), number));
}

// A crash or a full disk has cut the last line; the next append() begins with a newline, so that
// only the cut line is lost to readers.
bool ends_within_line(int fd, int64_t size) {
  char last = '\n';
  return ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

RotatingFile::RotatingFile(fs::path path) : RotatingFile(std::move(path), Limits{}) {}

RotatingFile::RotatingFile(fs::path path, Limits limits)
    : path_(std::move(path)), limits_(limits) {}

bool RotatingFile::fail(int number) {
  fault_ = std::generic_category().message(number);
  is_out_of_room_ = number == ENOSPC || number == EDQUOT;
  return false;
}

bool RotatingFile::open() {
  constexpr mode_t kMode = 0644;
  const auto open_file = [this] {
    file_ = Fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, kMode));
    return file_.is_open();
  };
  if (!open_file()) {
    std::error_code ignored;  // the second attempt reports it
    fs::create_directories(path_.parent_path(), ignored);
    if (!open_file()) {
      return fail(errno);
    }
  }
  struct stat status {};
  const bool is_regular = ::fstat(file_.number(), &status) == 0 && S_ISREG(status.st_mode);
  size_ = is_regular ? static_cast<int64_t>(status.st_size) : 0;
  is_torn_ = size_ > 0 && ends_within_line(file_.number(), size_);
  return true;
}

// If the file cannot be renamed, it continues to grow: too large is better than lost.
void RotatingFile::rotate() {
  std::error_code fault;
  for (int number = limits_.old_parts; number > 0; --number) {
    const fs::path from = part(path_, number - 1);
    if (number == 1 || fs::exists(from, fault)) {
      fs::rename(from, part(path_, number), fault);
    }
  }
  if (limits_.old_parts == 0) {
    fs::remove(path_, fault);
  }
  if (!fault) {
    file_.close();
  }
}

// Rotates before the write, not after it: a line is never divided between two parts. Lines larger
// than a part form a part of their own.
bool RotatingFile::append(std::string_view lines) {
  if (!file_.is_open() && !open()) {
    return false;
  }
  if (size_ > 0 && size_ + static_cast<int64_t>(lines.size()) > limits_.part_bytes) {
    rotate();
    if (!file_.is_open() && !open()) {
      return false;
    }
  }
  std::string whole;
  if (is_torn_) {
    whole.assign(1, '\n').append(lines);
    lines = whole;
  }
  return write_all(lines);
}

bool RotatingFile::write_all(std::string_view lines) {
  while (!lines.empty()) {
    const ssize_t count = ::write(file_.number(), lines.data(), lines.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return fail(count < 0 ? errno : ENOSPC);
    }
    size_ += count;
    is_torn_ = lines[static_cast<size_t>(count) - 1] != '\n';
    lines.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// The current part can be missing for a moment, between the rename and the next append.
std::vector<fs::path> find_parts(const fs::path& path) {
  std::vector<fs::path> parts;
  std::error_code ignored;
  for (int number = 0; fs::exists(part(path, number), ignored) || number == 0; ++number) {
    if (fs::exists(part(path, number), ignored)) {
      parts.push_back(part(path, number));
    }
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace lockstep::os
