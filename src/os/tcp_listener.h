// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "os/fd.h"

namespace lockstep::os {

// A TCP port of one address of this machine, at which connections arrive. No call blocks.
class TcpListener {
 public:
  // `address` is numeric, IPv4 or IPv6; port 0 means one that the kernel chooses. Throws an Error
  // (69) with the system's reason.
  TcpListener(const std::string& address, int port);

  // The next connection that waits, as a descriptor that does not block. It is offered once its
  // first bytes are there.
  std::optional<Fd> find_connection();

  int port() const { return port_; }

  // Readable while a connection waits.
  int fd() const { return socket_.number(); }

 private:
  Fd socket_;
  int port_ = 0;
};

// Sends what the connection takes now, without a signal where its other side has gone: the count,
// or nothing then.
std::optional<size_t> send_some(int fd, std::string_view bytes);

}  // namespace lockstep::os
