// SPDX-License-Identifier: Apache-2.0
#include "os/socket.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <thread>

#include "lockstep/error.h"
#include "os/fd.h"
#include "os/system_error.h"

namespace lockstep::os {
namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// An empty host means every address of this machine.
Addresses look_up(const std::string& host, int port) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV | (host.empty() ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int fault = ::getaddrinfo(
      host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (fault != 0) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot find the address of '{}'", host))
        .fact("reason", ::gai_strerror(fault), "name service");
  }
  return {found, [](addrinfo* list) {
            ::freeaddrinfo(list);
          }};
}

// 0, or why one cannot listen there. SO_REUSEADDR: connections of a former run that linger in
// TIME_WAIT do not count, a listener does.
int try_to_listen(const addrinfo& address) {
  const Fd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    return errno;
  }
  const int yes = 1;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (address.ai_family == AF_INET6) {
    ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
  }
  if (::bind(socket.number(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(socket.number(), 1) != 0) {
    return errno;
  }
  return 0;
}

bool can_connect(const addrinfo& address, std::chrono::milliseconds timeout) {
  const Fd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) {
    return false;
  }
  if (::connect(socket.number(), address.ai_addr, address.ai_addrlen) == 0) {
    return true;
  }
  pollfd waiting{.fd = socket.number(), .events = POLLOUT, .revents = 0};
  if (errno != EINPROGRESS || ::poll(&waiting, 1, static_cast<int>(timeout.count())) != 1) {
    return false;
  }
  int fault = 0;
  socklen_t size = sizeof(fault);
  ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &fault, &size);
  return fault == 0;
}

bool can_listen_at(const std::string& host, int port) {
  const Addresses addresses = look_up(host, port);
  // "localhost" may also mean ::1 on a machine that has none; one good address is enough.
  bool is_good = false;
  int fault = 0;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    fault = try_to_listen(*address);
    if (fault == EADDRINUSE) {
      return false;
    }
    is_good = is_good || fault == 0;
  }
  if (!is_good) {
    throw system_error(
        ExitCode::Unavailable, fmt::format("cannot listen on port {} at '{}'", port, host), fault);
  }
  return true;
}

}  // namespace

int free_port() {
  constexpr int kFirst = 20000;  // Linux serves outgoing connections from 32768 on
  constexpr int kLast = 32767;
  std::random_device device;
  std::uniform_int_distribution<int> ports(kFirst, kLast);
  for (int attempt = 0; attempt < 200; ++attempt) {
    const int port = ports(device);
    if (can_listen_at("", port)) {
      return port;
    }
  }
  throw Error(ExitCode::Unavailable, "cannot find a free port on this machine")
      .fact("looked at", fmt::format("200 ports from {} to {}", kFirst, kLast), "probe")
      .hint("--master-port with a port that is free");
}

bool is_port_free(const std::string& host, int port) {
  return can_listen_at(host, port) && can_listen_at("", port);
}

bool wait_for_port(const std::string& host, int port, std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kPause(10);
  const auto deadline = Clock::now() + timeout;
  const Addresses addresses = look_up(host, port);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
      if (can_connect(*address, std::max(left, kPause))) {
        return true;
      }
    }
    if (left <= kPause) {
      return false;
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace lockstep::os
