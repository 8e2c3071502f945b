// SPDX-License-Identifier: Apache-2.0
#include "os/fd.h"

#include <cerrno>
#include <unistd.h>

#include "os/system_error.h"

namespace lockstep::os {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    close();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

void Fd::close() noexcept {
  if (number_ >= 0) {
    ::close(std::exchange(number_, -1));
  }
}

void redirect(int from, int to) {
  if (::dup2(from, to) < 0) {
    throw system_error(ExitCode::Bug, "cannot redirect a descriptor", errno);
  }
  ::close(from);
}

}  // namespace lockstep::os
