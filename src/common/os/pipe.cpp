// SPDX-License-Identifier: Apache-2.0
#include "common/os/pipe.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/system_error.h"

namespace lockstep::os {

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw system_error(ExitCode::Unavailable, "cannot create a pipe", errno)
        .hint("use fewer workers, or raise the limit of open files (ulimit -n)");
  }
  return {.out = Fd(ends[0]), .in = Fd(ends[1])};
}

void enlarge_pipe(int fd, int bytes) {
  ::fcntl(fd, F_SETPIPE_SZ, bytes);
}

// The flag belongs to the open file description, which duplicates and child processes share. For
// standard streams use open_nonblocking_twin() instead.
void set_nonblocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// A pseudo terminal reports EIO when its other side is closed, a socket ECONNRESET: such errors
// count as the end, because no more bytes can arrive.
ReadResult read_some(int fd, std::span<char> buffer, size_t& count) {
  ssize_t got = -1;
  do {
    got = ::read(fd, buffer.data(), buffer.size());
  } while (got < 0 && errno == EINTR);
  const bool may_come = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  count = got > 0 ? static_cast<size_t>(got) : 0;
  if (got > 0) {
    return ReadResult::Some;
  }
  return may_come ? ReadResult::Nothing : ReadResult::End;
}

ReadResult read_some(int fd, std::string& buffer, size_t maximum) {
  const size_t before = buffer.size();
  buffer.resize(before + maximum);
  size_t count = 0;
  const ReadResult result = read_some(fd, std::span(buffer).subspan(before), count);
  buffer.resize(before + count);
  return result;
}

std::optional<size_t> write_some(int fd, std::string_view text) {
  const ssize_t count = ::write(fd, text.data(), text.size());
  if (count >= 0) {
    return static_cast<size_t>(count);
  }
  if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) {
    return 0;
  }
  return std::nullopt;
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto count = write_some(fd, text);
    if (!count) {
      return false;
    }
    if (*count == 0) {
      Watch watch{.fd = fd, .for_write = true, .is_ready = false};
      wait_for({&watch, 1}, std::nullopt);
    }
    text.remove_prefix(*count);
  }
  return true;
}

bool has_reader(int fd) {
  // Without requested events, poll still reports errors and a socket that is closed in both
  // directions. A socket that is closed in one direction may still be read by the peer.
  pollfd entry = {.fd = fd, .events = 0, .revents = 0};
  return ::poll(&entry, 1, 0) <= 0 || (entry.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

// poll() skips entries with a negative descriptor: callers remove a descriptor by setting it to -1.
// After EINTR nothing is ready and the function returns early; every caller waits in a loop.
void wait_for(std::span<Watch> watches, std::optional<std::chrono::milliseconds> timeout) {
  std::vector<pollfd> entries;
  entries.reserve(watches.size());
  for (const Watch& watch : watches) {
    entries.push_back({.fd = watch.fd,
                       .events = static_cast<short>(watch.for_write ? POLLOUT : POLLIN),
                       .revents = 0});
  }
  const int milliseconds = timeout ? static_cast<int>(std::max<int64_t>(0, timeout->count())) : -1;
  ::poll(entries.data(), entries.size(), milliseconds);
  for (size_t i = 0; i < watches.size(); ++i) {
    watches[i].is_ready = entries[i].revents != 0;
  }
}

Fd open_for_append(const std::filesystem::path& path) {
  constexpr mode_t kMode = 0644;
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode));
  if (!file.is_open()) {
    throw system_error(ExitCode::Io, fmt::format("cannot write '{}'", path.string()), errno);
  }
  return file;
}

bool is_regular_file(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

bool is_null_device(int fd) {
  struct stat status {};
  struct stat null {};
  return ::fstat(fd, &status) == 0 && ::stat("/dev/null", &null) == 0 && S_ISCHR(status.st_mode) &&
         status.st_rdev == null.st_rdev;
}

bool is_same_file(int one, int other) {
  struct stat first {};
  struct stat second {};
  return one == other || (::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 &&
                          first.st_dev == second.st_dev && first.st_ino == second.st_ino);
}

// Opening /proc/self/fd/N creates a new open file description of the same pipe or terminal.
// O_NOCTTY: a process without a controlling terminal must not get one by this.
Fd open_nonblocking_twin(int fd) {
  const std::string path = fmt::format("/proc/self/fd/{}", fd);
  return Fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
}

Fd make_memory_file(std::string_view text) {
  Fd file(::memfd_create("lockstep", MFD_CLOEXEC));
  if (!file.is_open() || !write_all(file.number(), text) ||
      ::lseek(file.number(), 0, SEEK_SET) != 0) {
    throw system_error(ExitCode::Unavailable, "cannot create a file in memory", errno);
  }
  return file;
}

}  // namespace lockstep::os
