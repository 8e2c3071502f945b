// SPDX-License-Identifier: Apache-2.0
#include "common/os/fd.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "common/os/system_error.h"

namespace lockstep::os {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    close();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

// Not repeated after EINTR: Linux has released the number in any case, and another thread may
// already use it for a new file.
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

// The copy gets a number of at least 3, so that it does not take the place of a standard stream
// that is closed. Other threads that write to the descriptor meanwhile are silenced, too.
Silence::Silence(int number)
    : number_(number), kept_(::fcntl(number, F_DUPFD_CLOEXEC, 3)) {  // not a standard stream
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (!kept_.is_open() || nowhere < 0) {
    throw system_error(ExitCode::Bug, "cannot duplicate a descriptor", errno);
  }
  redirect(nowhere, number);
}

Silence::~Silence() {
  ::dup2(kept_.number(), number_);
}

}  // namespace lockstep::os
