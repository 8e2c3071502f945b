// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "os/network.h"

namespace lockstep::cluster {

// An address by which this machine may be reached, and what is known of the interface that has it.
struct Address {
  std::string interface;  // "ib0"
  std::string text;       // "10.12.0.1", "fd00::1"
  int prefix = 0;         // length of the network's part in bits
  bool is_v6 = false;
  bool is_loopback = false;
  int speed_mbps = 0;    // 0: not told
  bool is_rdma = false;  // InfiniBand or RoCE behind it

  bool operator==(const Address&) const = default;
};

// Of every interface that is up, in the kernel's order; no link-local ones. `sysfs` is where
// class/net and class/infiniband lie.
std::vector<Address> list_addresses(const std::filesystem::path& sysfs = "/sys");

// The same of addresses that are known already.
std::vector<Address> describe_addresses(std::span<const os::InterfaceAddress> addresses,
                                        const std::filesystem::path& sysfs = "/sys");

// The index of a RoCE v2 GID with an IPv4 address on the HCA behind `interface`, from sysfs;
// nothing where the interface is not RoCE or the table holds none.
std::optional<int> find_roce_gid_index(const std::string& interface,
                                       const std::filesystem::path& sysfs = "/sys");

}  // namespace lockstep::cluster
