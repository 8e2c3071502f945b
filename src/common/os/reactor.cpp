// SPDX-License-Identifier: Apache-2.0
//
// One epoll_wait returns a batch of events, and the handler of the first can forget and close the
// descriptor of the second, whose number a new file can get at once. Each registration therefore
// has a number, stored in the event next to the descriptor:
//
//   63             32 31              0
//   +----------------+----------------+
//   | registration   | descriptor     |
//   +----------------+----------------+
//
// An event whose registration is not the current one of its descriptor is dropped.
#include "common/os/reactor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/epoll.h>

#include "common/os/system_error.h"

namespace lockstep::os {
namespace {

constexpr uint64_t kNumberBits = 32;

// Packs a descriptor and the number of its entry into one word.
uint64_t to_word(int fd, uint64_t number) {
  return (number << kNumberBits) | static_cast<uint32_t>(fd);
}

}  // namespace

Reactor::Reactor() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_.is_open()) {
    throw system_error(ExitCode::Unavailable, "cannot watch descriptors", errno);
  }
}

void Reactor::watch(int fd, For what, Handler handler) {
  const bool is_new = !entries_.contains(fd);
  Entry& entry = entries_[fd];
  entry.handler = std::move(handler);
  entry.number = next_number_++ & 0xffffffffU;
  epoll_event event{};
  event.events = what == For::Read ? EPOLLIN : EPOLLOUT;
  event.data.u64 = to_word(fd, entry.number);
  // A closed and reopened descriptor has left the epoll set by itself.
  const int verb = is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (::epoll_ctl(epoll_.number(), verb, fd, &event) != 0 &&
      ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, fd, &event) != 0) {
    entries_.erase(fd);
    throw system_error(ExitCode::Bug, "cannot watch a descriptor", errno);
  }
}

void Reactor::forget(int fd) {
  if (entries_.erase(fd) > 0) {
    ::epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, fd, nullptr);
  }
}

void Reactor::turn(std::optional<std::chrono::milliseconds> timeout) {
  constexpr int kMaxEvents = 256;
  // epoll_wait takes an int of milliseconds; waking up once an hour costs nothing.
  constexpr int64_t kLongest = int64_t{3600} * 1000;
  std::array<epoll_event, kMaxEvents> events{};
  const int wait =
      timeout ? static_cast<int>(std::clamp<int64_t>(timeout->count(), 0, kLongest)) : -1;
  const int count = ::epoll_wait(epoll_.number(), events.data(), kMaxEvents, wait);
  if (count < 0 && errno != EINTR) {
    throw system_error(ExitCode::Bug, "cannot wait for descriptors", errno);
  }
  for (int i = 0; i < count; ++i) {
    const uint64_t word = events.at(static_cast<size_t>(i)).data.u64;
    const auto found = entries_.find(static_cast<int>(word & 0xffffffffU));
    if (found != entries_.end() && found->second.number == word >> kNumberBits) {
      const Handler handler = found->second.handler;  // a copy: it may replace itself
      handler();
    }
  }
}

}  // namespace lockstep::os
