// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "os/fd.h"

// TCP ports, as far as launcher and worker must know of them before a library opens its own.
namespace lockstep::os {

// A port that nobody on this machine listens on, outside the range from which the kernel serves
// outgoing connections, so that it is likely still free when a worker opens it.
int free_port();

// A port like free_port()'s that no other run of lockstep on this machine gets as long as this
// object lives; it ends with the process at the latest. Another program may still take the port.
class ReservedPort {
 public:
  ReservedPort() = default;
  ReservedPort(int number, Fd claim) : number_(number), claim_(std::move(claim)) {}

  // 0 when it holds none.
  int number() const { return number_; }

 private:
  int number_ = 0;
  Fd claim_;
};

// Throw an Error (69) when none is left.
ReservedPort reserve_port();
std::vector<ReservedPort> reserve_ports(int count);

// Whether a server could listen on `port` at `host`, an address of this machine: nobody listens on
// it there, nor on all addresses. Throws an Error when `host` is unknown or not of this machine.
bool is_port_free(const std::string& host, int port);

// Waits until somebody listens on `port` at `host`; false after `timeout`.
bool wait_for_port(const std::string& host, int port, std::chrono::milliseconds timeout);

// Who is at the other end of a connected socket: "10.0.0.7:51234"; nothing when nobody is.
std::optional<std::string> find_peer_address(int fd);

}  // namespace lockstep::os
