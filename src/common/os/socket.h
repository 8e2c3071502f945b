// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/os/fd.h"

// TCP ports that launcher and workers choose before a library opens them.
namespace lockstep::os {

// A port without a listener on this machine, outside the ephemeral port range of the kernel, so
// that it is likely still free when a worker opens it.
int free_port();

// The names that reserve a port.
struct PortClaim {
  Fd own;     // excludes other runs of this user
  Fd shared;  // excludes those of all users; not open if another user has taken it
};

// A port like that of free_port() that no other run of lockstep on this machine gets during the
// lifetime of this object or process. Other programs can still take the port.
class ReservedPort {
 public:
  ReservedPort() = default;
  ReservedPort(int number, PortClaim claim) : number_(number), claim_(std::move(claim)) {}

  // 0 if it holds none.
  int number() const { return number_; }

 private:
  int number_ = 0;
  PortClaim claim_;
};

// Throws an Error (69) if no port is free.
std::vector<ReservedPort> reserve_ports(int count);

// Whether a server could listen on `port` at `host`, an address of this machine: no process listens
// there or on all addresses. Throws an Error if `host` is unknown or not an address of this
// machine.
bool is_port_free(const std::string& host, int port);

// Waits until a server listens on `port` at `host`; false after `timeout`.
bool wait_for_port(const std::string& host, int port, std::chrono::milliseconds timeout);

// The address of the peer of a connected socket: "10.0.0.7:51234"; nothing if not connected.
std::optional<std::string> find_peer_address(int fd);

}  // namespace lockstep::os
