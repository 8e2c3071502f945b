// SPDX-License-Identifier: Apache-2.0
#include "os/standard_streams.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

#include "os/pipe.h"
#include "os/system_error.h"

namespace lockstep::os {
namespace {

[[noreturn]] void refuse(int number) {
  throw system_error(ExitCode::Io, "cannot write to the standard output", number);
}

}  // namespace

void open_missing_streams() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) == -1 && errno == EBADF) {
      // The lowest number that is free, which is this one.
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

void finish_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 && errno != EPIPE) {
    refuse(errno);
  }
}

}  // namespace lockstep::os
