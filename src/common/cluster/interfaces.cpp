// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/interfaces.h"

#include <algorithm>
#include <fstream>
#include <string_view>
#include <system_error>

#include "common/base/text.h"
#include "common/os/directory.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;

// Empty if the file is missing or the driver does not report the value, as many do.
std::string read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int speed_of(const fs::path& interface) {
  const auto reported = find_integer(read_line(interface / "speed"));
  constexpr int64_t kMaximum = 100'000'000;  // drivers report "unknown" as -1 or 2^32 - 1
  return reported && *reported > 0 && *reported <= kMaximum ? static_cast<int>(*reported) : 0;
}

// A RoCE adapter is an Ethernet interface whose PCI device also has a folder "infiniband".
bool has_rdma_device(const fs::path& interface) {
  constexpr std::string_view kInfinibandType = "32";  // ARPHRD_INFINIBAND
  return read_line(interface / "type") == kInfinibandType ||
         os::exists(interface / "device" / "infiniband");
}

// A VLAN or a bond supports RDMA if the device below it does; a bridge does not forward it.
bool has_rdma(const fs::path& net, const std::string& name, int depth = 0) {
  constexpr int kMaxLayers = 3;  // a VLAN on a bond on a device
  constexpr std::string_view kLower = "lower_";
  const fs::path interface = net / name;
  if (has_rdma_device(interface)) {
    return true;
  }
  if (depth == kMaxLayers || os::exists(interface / "bridge")) {
    return false;
  }
  const std::vector<std::string> names = os::find_names(interface);
  return std::any_of(names.begin(), names.end(), [&](const std::string& entry) {
    return entry.starts_with(kLower) && has_rdma(net, entry.substr(kLower.size()), depth + 1);
  });
}

// sysfs writes every GID in full: an IPv4 address is 80 zero bits followed by 16 one bits.
bool is_ipv4_gid(std::string_view gid) {
  return gid.starts_with("0000:0000:0000:0000:0000:ffff:");
}

// The first suitable entry in the GID table of a port. A port has one GID for each address and RoCE
// version. NCCL chooses one by itself only since 2.21; earlier versions use index 0, which is
// usually RoCE v1 and does not cross routers.
std::optional<int> find_gid_index_in(const fs::path& port, const std::string& interface) {
  std::optional<int> found;
  for (const std::string& name : os::find_names(port / "gid_attrs" / "ndevs")) {
    const auto index = find_integer(name);
    if (index && read_line(port / "gid_attrs" / "ndevs" / name) == interface &&
        read_line(port / "gid_attrs" / "types" / name) == "RoCE v2" &&
        is_ipv4_gid(read_line(port / "gids" / name))) {
      found = std::min(found.value_or(static_cast<int>(*index)), static_cast<int>(*index));
    }
  }
  return found;
}

}  // namespace

std::vector<Address> describe_addresses(std::span<const os::InterfaceAddress> addresses,
                                        const fs::path& sysfs) {
  const fs::path net = sysfs / "class" / "net";
  std::vector<Address> described;
  described.reserve(addresses.size());
  for (const os::InterfaceAddress& address : addresses) {
    described.push_back({.interface = address.interface,
                         .text = address.text,
                         .prefix = address.prefix,
                         .is_v6 = address.is_v6,
                         .is_loopback = address.is_loopback,
                         .speed_mbps = speed_of(net / address.interface),
                         .is_rdma = has_rdma(net, address.interface)});
  }
  return described;
}

std::vector<Address> list_addresses(const fs::path& sysfs) {
  return describe_addresses(os::interface_addresses(), sysfs);
}

std::optional<int> find_roce_gid_index(const std::string& interface, const fs::path& sysfs) {
  const fs::path devices = sysfs / "class" / "infiniband";
  for (const std::string& device : os::find_names(devices)) {
    for (const std::string& port : os::find_names(devices / device / "ports")) {
      if (const auto index = find_gid_index_in(devices / device / "ports" / port, interface)) {
        return index;
      }
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::cluster
