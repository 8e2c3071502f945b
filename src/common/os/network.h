// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::os {

// The source address of this machine for connections to `host`; sends no packets. Nothing if the
// name does not resolve or there is no route.
std::optional<std::string> find_local_address_towards(const std::string& host);

// The names of the network interfaces of this machine.
std::vector<std::string> interface_names();

struct InterfaceAddress {
  std::string interface;
  std::string text;  // "10.12.0.1", "fd00::1"
  int prefix = 0;    // length of the network prefix in bits
  bool is_v6 = false;
  bool is_loopback = false;  // reaches only this machine

  bool operator==(const InterfaceAddress&) const = default;
};

// Addresses of all interfaces that are up and have a carrier, in kernel order, without link-local
// addresses. Throws an Error (69) if the kernel does not report them.
std::vector<InterfaceAddress> interface_addresses();

// The network of an address, "10.12.0.0/24"; nothing if the text is not an address or the prefix is
// too long. Does not use the name service.
std::optional<std::string> find_network(const std::string& address, int prefix);

}  // namespace lockstep::os
