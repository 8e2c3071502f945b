// SPDX-License-Identifier: Apache-2.0
#include "common/os/growing_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fd.h"

namespace lockstep::os {
namespace {

FileLook look_of(const struct stat& status) {
  return {.identity = {.device = status.st_dev, .inode = status.st_ino},
          .size = static_cast<uint64_t>(status.st_size)};
}

}  // namespace

std::optional<FileLook> find_look(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  return look_of(status);
}

// The identity comes from the descriptor that is read: if the writer rotates the file between two
// calls, the caller sees a new inode and starts again at offset 0.
std::optional<FilePiece> find_piece(const std::filesystem::path& path,
                                    uint64_t offset,
                                    size_t max_bytes) {
  // O_NONBLOCK: a FIFO of that name must not block the reader.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  FilePiece piece{.look = look_of(status), .bytes = std::string(max_bytes, '\0')};
  size_t filled = 0;
  while (filled < max_bytes) {
    const ssize_t count = ::pread(file.number(),
                                  piece.bytes.data() + filled,
                                  max_bytes - filled,
                                  static_cast<off_t>(offset + filled));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return std::nullopt;
    }
    if (count == 0) {
      break;
    }
    filled += static_cast<size_t>(count);
  }
  piece.bytes.resize(filled);
  return piece;
}

}  // namespace lockstep::os
