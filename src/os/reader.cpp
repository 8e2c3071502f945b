// SPDX-License-Identifier: Apache-2.0
#include "os/reader.h"

#include <poll.h>

namespace lockstep::os {

bool has_reader(int fd) {
  // Asked for nothing, poll still tells of errors and of a socket closed in both directions; one
  // that is closed in one direction may well be read.
  pollfd entry = {.fd = fd, .events = 0, .revents = 0};
  return ::poll(&entry, 1, 0) <= 0 || (entry.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

}  // namespace lockstep::os
