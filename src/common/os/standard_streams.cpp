// SPDX-License-Identifier: Apache-2.0
//
// "lockstep ... | head" closes the pipe early: EPIPE is a normal end. Every other failure, such as
// a full disk behind "> file", must not look like success, so it is an error with exit code 74.
#include "common/os/standard_streams.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <system_error>
#include <unistd.h>

#include "common/os/pipe.h"
#include "common/os/system_error.h"

namespace lockstep::os {
namespace {

constexpr const char* kLost = "cannot write to standard output";

[[noreturn]] void refuse(int number) {
  throw system_error(ExitCode::Io, kLost, number);
}

}  // namespace

// Ascending order: the lowest free number is then always the one that is examined.
void open_missing_streams() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) == -1 && errno == EBADF) {
      // open() returns the lowest free number, which is this one.
      ::open("/dev/null", number == STDIN_FILENO ? O_RDONLY : O_WRONLY);
    }
  }
}

bool write_output(std::string_view text) {
  finish_output();
  if (write_all(STDOUT_FILENO, text)) {
    return true;
  }
  if (errno != EPIPE) {
    refuse(errno);
  }
  return false;
}

// stdio can fail without an errno if an earlier write failed; errno is reset to recognize that.
void finish_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 && errno != EPIPE) {
    refuse(errno);
  }
}

std::optional<int> report_lost_output(std::string_view name, const std::exception& fault) {
  const auto* system = dynamic_cast<const std::system_error*>(&fault);
  if (system == nullptr || std::ferror(stdout) == 0) {
    return std::nullopt;
  }
  if (system->code().value() == EPIPE) {
    return 0;
  }
  fmt::print(stderr, "{}: error: {}\n  reason: {}\n", name, kLost, fault.what());
  return static_cast<int>(ExitCode::Io);
}

}  // namespace lockstep::os
