// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/os/network.h"

namespace lockstep::cluster {

// An address of this machine and the properties of its interface.
struct Address {
  std::string interface;  // "ib0"
  std::string text;       // "10.12.0.1", "fd00::1"
  int prefix = 0;         // length of the network prefix in bits
  bool is_v6 = false;
  bool is_loopback = false;
  int speed_mbps = 0;    // 0: unknown
  bool is_rdma = false;  // the interface is InfiniBand or RoCE

  bool operator==(const Address&) const = default;
};

// Addresses of all interfaces that are up, in kernel order, without link-local addresses. `sysfs`
// is the directory that contains class/net and class/infiniband.
std::vector<Address> list_addresses(const std::filesystem::path& sysfs = "/sys");

// As above, for known addresses.
std::vector<Address> describe_addresses(std::span<const os::InterfaceAddress> addresses,
                                        const std::filesystem::path& sysfs = "/sys");

// The index of a RoCE v2 GID with an IPv4 address on the HCA of `interface`, from sysfs. Nothing if
// the interface is not RoCE or the table has no such entry.
std::optional<int> find_roce_gid_index(const std::string& interface,
                                       const std::filesystem::path& sysfs = "/sys");

}  // namespace lockstep::cluster
