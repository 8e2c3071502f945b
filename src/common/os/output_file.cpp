// SPDX-License-Identifier: Apache-2.0
#include "common/os/output_file.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::os {
namespace {

[[noreturn]] void refuse(std::string_view verb, const std::filesystem::path& path, int error) {
  throw Error(
      ExitCode::Io,
      fmt::format("cannot {} {}: {}", verb, path.string(), std::generic_category().message(error)));
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  constexpr mode_t kForAllThatUmaskLets = 0666;
  file_ = Fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kForAllThatUmaskLets));
  if (!file_.is_open()) {
    refuse("create", path_, errno);
  }
}

void OutputFile::write(std::string_view bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.number(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      refuse("write", path_, errno);
    }
    bytes.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
  // Starts write-back while more data follows, so that close() waits for less. Errors are reported
  // by close().
  constexpr uint64_t kAtOnce = uint64_t{8} << 20U;
  if (size_ - begun_ >= kAtOnce) {
    static_cast<void>(::sync_file_range(file_.number(),
                                        static_cast<off64_t>(begun_),
                                        static_cast<off64_t>(size_ - begun_),
                                        SYNC_FILE_RANGE_WRITE));
    begun_ = size_;
  }
}

void OutputFile::close() {
  while (::fsync(file_.number()) != 0) {
    if (errno != EINTR) {
      refuse("write", path_, errno);
    }
  }
  // Some file systems report a lost write only on close.
  if (::close(file_.release()) != 0 && errno != EINTR) {
    refuse("write", path_, errno);
  }
}

}  // namespace lockstep::os
