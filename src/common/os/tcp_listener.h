// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/os/fd.h"

namespace lockstep::os {

// Accepts TCP connections on one port of one address of this machine. No call blocks.
class TcpListener {
 public:
  // `address` is a numeric IPv4 or IPv6 address; with port 0, the kernel chooses one. Throws an
  // Error (69) with the reason.
  TcpListener(const std::string& address, int port);

  // The next pending connection as a non-blocking descriptor. A connection is accepted only after
  // its first bytes have arrived.
  std::optional<Fd> find_connection();

  int port() const { return port_; }

  // Readable while a connection is pending.
  int fd() const { return socket_.number(); }

 private:
  Fd socket_;
  int port_ = 0;
};

// Sends as much as the connection accepts now, without SIGPIPE. Returns the count, or nothing if
// the other side has closed.
std::optional<size_t> send_some(int fd, std::string_view bytes);

}  // namespace lockstep::os
