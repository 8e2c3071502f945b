// SPDX-License-Identifier: Apache-2.0
//
// `lockstep doctor` and the start of a run test which node reaches which over which interface:
// hundreds of connections at once. Everything is non-blocking, and one epoll set per test
// (ReadySet) is itself watched by the event loop of the caller.
#include "common/os/probe_socket.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/os/system_error.h"

namespace lockstep::os {
namespace {

constexpr int kKind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

// An address of either family with its port.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size = 0;  // 0: no address

  const sockaddr* pointer() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

Endpoint endpoint_of(const std::string& address, int port) {
  Endpoint found;
  auto& v4 = reinterpret_cast<sockaddr_in&>(found.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(found.storage);
  const uint16_t number = htons(static_cast<uint16_t>(port));
  if (::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = number;
    found.size = sizeof(v4);
  } else if (::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = number;
    found.size = sizeof(v6);
  }
  return found;
}

void set_flag(const Fd& socket, int level, int option, int value) {
  ::setsockopt(socket.number(), level, option, &value, sizeof(value));
}

// One socket for both families; IPv4 only if the kernel has no IPv6.
Fd bound_everywhere() {
  Fd both(::socket(AF_INET6, kKind, 0));
  if (both.is_open()) {
    set_flag(both, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    const Endpoint any = endpoint_of("::", 0);
    if (::bind(both.number(), any.pointer(), any.size) == 0) {
      return both;
    }
  }
  Fd old(::socket(AF_INET, kKind, 0));
  const Endpoint any = endpoint_of("0.0.0.0", 0);
  if (old.is_open() && ::bind(old.number(), any.pointer(), any.size) == 0) {
    return old;
  }
  throw system_error(ExitCode::Unavailable, "cannot open a listening port on this machine", errno);
}

int port_of(const Fd& socket) {
  sockaddr_storage mine{};
  socklen_t size = sizeof(mine);
  ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&mine), &size);
  return ntohs(mine.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(mine).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(mine).sin_port);
}

}  // namespace

Listener listen_everywhere() {
  // TCP_DEFER_ACCEPT: after this time, the kernel hands over or drops the silent connection. Port
  // scanners and health checks of a site connect and send nothing; they must not look like nodes.
  constexpr int kSilentSeconds = 2;
  Listener listener{.socket = bound_everywhere()};
  set_flag(listener.socket, IPPROTO_TCP, TCP_DEFER_ACCEPT, kSilentSeconds);
  if (::listen(listener.socket.number(), SOMAXCONN) != 0) {
    throw system_error(
        ExitCode::Unavailable, "cannot open a listening port on this machine", errno);
  }
  listener.port = port_of(listener.socket);
  return listener;
}

std::optional<Fd> find_connection(const Fd& listener) {
  for (;;) {
    Fd connection(::accept4(listener.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.is_open()) {
      return connection;
    }
    // Some errors belong to a connection that died in the queue; others may wait behind it.
    if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO) {
      return std::nullopt;
    }
  }
}

// Binding to `from` forces the interface of that address as the source; the route is still that of
// the kernel. A refused or unreachable target can be reported at once or later by connect_fault().
Connecting start_connect(const Route& route) {
  const Endpoint to = endpoint_of(route.to, route.port);
  if (to.size == 0) {
    return {.socket = {}, .fault = EAFNOSUPPORT};
  }
  Connecting started{.socket = Fd(::socket(to.family(), kKind, 0))};
  if (!started.socket.is_open()) {
    started.fault = errno;
    return started;
  }
  set_flag(started.socket, IPPROTO_TCP, TCP_NODELAY, 1);
  if (!route.from.empty()) {
    // Defer the choice of the port to connect(), when the kernel knows which pairs are still free.
    set_flag(started.socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    const Endpoint from = endpoint_of(route.from, 0);
    if (::bind(started.socket.number(), from.pointer(), from.size) != 0) {
      started.fault = errno;
      return started;
    }
  }
  if (::connect(started.socket.number(), to.pointer(), to.size) != 0 && errno != EINPROGRESS) {
    started.fault = errno;
  }
  return started;
}

// SO_ERROR is reset by reading it: the second call for the same socket returns 0.
int connect_fault(const Fd& socket) {
  int fault = 0;
  socklen_t size = sizeof(fault);
  return ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &fault, &size) == 0 ? fault : errno;
}

bool send_at_once(const Fd& socket, std::span<const uint8_t> bytes) {
  const ssize_t sent = ::send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(bytes.size());
}

std::optional<size_t> receive_some(const Fd& socket, std::span<uint8_t> room) {
  const ssize_t got = ::recv(socket.number(), room.data(), room.size(), 0);
  if (got > 0) {
    return static_cast<size_t>(got);
  }
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return 0;
  }
  return std::nullopt;
}

ReadySet::ReadySet() : set_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!set_.is_open()) {
    throw system_error(ExitCode::Unavailable, "cannot watch sockets", errno);
  }
}

void ReadySet::control(int verb, const Fd& descriptor, For purpose, uint64_t token) {
  epoll_event wanted{};
  wanted.events = purpose == For::Read ? EPOLLIN : EPOLLOUT;
  wanted.data.u64 = token;
  if (::epoll_ctl(set_.number(), verb, descriptor.number(), &wanted) != 0) {
    throw system_error(ExitCode::Unavailable, "cannot watch sockets", errno);
  }
}

void ReadySet::add(const Fd& descriptor, For purpose, uint64_t token) {
  control(EPOLL_CTL_ADD, descriptor, purpose, token);
}

void ReadySet::change(const Fd& descriptor, For purpose, uint64_t token) {
  control(EPOLL_CTL_MOD, descriptor, purpose, token);
}

std::vector<uint64_t> ReadySet::ready() const {
  // Level-triggered: descriptors beyond this number are reported by the next call.
  std::array<epoll_event, 512> events;
  const int count = ::epoll_wait(set_.number(), events.data(), static_cast<int>(events.size()), 0);
  std::vector<uint64_t> tokens;
  tokens.reserve(events.size());
  for (const epoll_event& event :
       std::span(events).first(static_cast<size_t>(std::max(count, 0)))) {
    tokens.push_back(event.data.u64);
  }
  return tokens;
}

}  // namespace lockstep::os
