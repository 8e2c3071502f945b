// SPDX-License-Identifier: Apache-2.0
#include "common/os/tcp_listener.h"

#include <cerrno>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/os/system_error.h"
#include "lockstep/error.h"

namespace lockstep::os {
namespace {

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addresses parse(const std::string& address, int port) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int fault = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found);
  if (fault != 0) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot listen at '{}'", address))
        .fact("reason", ::gai_strerror(fault));
  }
  return {found, [](addrinfo* list) {
            ::freeaddrinfo(list);
          }};
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  // Both families store the port at the same offset.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

TcpListener::TcpListener(const std::string& address, int port) {
  // Queue for connections that arrive faster than they are accepted; limited by the kernel.
  constexpr int kBacklog = 4096;
  constexpr int kSecondsToSpeak = 3;
  const Addresses parsed = parse(address, port);
  socket_ = Fd(::socket(parsed->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  // Connections of an earlier run in TIME_WAIT do not block the port.
  ::setsockopt(socket_.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  ::setsockopt(
      socket_.number(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &kSecondsToSpeak, sizeof(kSecondsToSpeak));
  if (!socket_.is_open() || ::bind(socket_.number(), parsed->ai_addr, parsed->ai_addrlen) != 0 ||
      ::listen(socket_.number(), kBacklog) != 0) {
    throw system_error(ExitCode::Unavailable,
                       fmt::format("cannot listen on port {} at '{}'", port, address),
                       errno);
  }
  port_ = port_of(socket_.number());
}

std::optional<Fd> TcpListener::find_connection() {
  Fd connection(::accept4(socket_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.is_open()) {
    return std::nullopt;
  }
  return connection;
}

// MSG_DONTWAIT per call, so that it never blocks even on a descriptor without O_NONBLOCK.
std::optional<size_t> send_some(int fd, std::string_view bytes) {
  const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count >= 0) {
    return static_cast<size_t>(count);
  }
  if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) {
    return 0;
  }
  return std::nullopt;
}

}  // namespace lockstep::os
