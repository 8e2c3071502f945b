// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::os {

// The address that this machine would use as its own when it talks to `host`; sends nothing.
// Nothing when the name does not resolve or there is no route.
std::optional<std::string> find_local_address_towards(const std::string& host);

// The names of this machine's network interfaces.
std::vector<std::string> interface_names();

// An address of an interface.
struct InterfaceAddress {
  std::string interface;
  std::string text;  // "10.12.0.1", "fd00::1"
  int prefix = 0;    // length of the network's part in bits
  bool is_v6 = false;
  bool is_loopback = false;  // reaches this machine alone

  bool operator==(const InterfaceAddress&) const = default;
};

// Of every interface that is up and has a carrier, in the kernel's order; without those that are
// valid on one link only. Throws an Error (69) when the kernel does not tell.
std::vector<InterfaceAddress> interface_addresses();

// The network that an address belongs to, "10.12.0.0/24"; nothing when the text is no address or
// the prefix is longer than it. Asks nobody.
std::optional<std::string> find_network(const std::string& address, int prefix);

}  // namespace lockstep::os
