// SPDX-License-Identifier: Apache-2.0
//
// A pidfd becomes readable when its process ends, also for processes that are not children. A
// process number alone would not do: the kernel can assign it to another process after the end of
// the first.
#include "common/os/peer_watch.h"

#include <fmt/format.h>
#include <fstream>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep::os {

PeerWatch::~PeerWatch() {
  for (const int descriptor : descriptors_) {
    ::close(descriptor);
  }
}

// Every failure counts as "does not exist", also a lack of descriptors: the caller then uses a
// transport that needs no watch, or does without the early detection.
bool PeerWatch::add(int pid) {
  const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) {
    return false;
  }
  descriptors_.push_back(descriptor);
  return true;
}

std::optional<int> PeerWatch::find_ended() const {
  std::vector<pollfd> polls;
  polls.reserve(descriptors_.size());
  for (const int descriptor : descriptors_) {
    polls.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  }
  if (::poll(polls.data(), polls.size(), 0) <= 0) {
    return std::nullopt;
  }
  for (size_t i = 0; i < polls.size(); ++i) {
    if (polls[i].revents != 0) {
      return static_cast<int>(i);
    }
  }
  return std::nullopt;
}

// The boot identifier distinguishes machines and reboots, the inode of the process namespace
// distinguishes containers, and device and inode of /dev/shm distinguish mounts: two containers on
// one machine can share the first and have separate shared memory.
std::string machine_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat processes {};
  struct stat memory {};
  ::stat("/proc/self/ns/pid", &processes);
  ::stat("/dev/shm", &memory);
  return fmt::format("{}/{}/{}:{}", boot, processes.st_ino, memory.st_dev, memory.st_ino);
}

int process_id() {
  return ::getpid();
}

}  // namespace lockstep::os
