// SPDX-License-Identifier: Apache-2.0
#include "common/os/network.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <span>
#include <sys/socket.h>
#include <unistd.h>

#include "common/os/system_error.h"

namespace lockstep::os {
namespace {

std::optional<std::string> address_of(const sockaddr_storage& address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (::getnameinfo(generic, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return std::nullopt;
  }
  return std::string(text.data());
}

// Connecting a datagram socket makes the kernel choose the source address from its routes.
std::optional<std::string> source_address(const addrinfo& target) {
  const int descriptor = ::socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) {
    return std::nullopt;
  }
  sockaddr_storage mine{};
  socklen_t length = sizeof(mine);
  std::optional<std::string> found;
  if (::connect(descriptor, target.ai_addr, target.ai_addrlen) == 0 &&
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&mine), &length) == 0) {
    found = address_of(mine, length);
  }
  ::close(descriptor);
  return found;
}

// The bytes of an IPv4 or IPv6 address in network order; none for other families.
std::span<const uint8_t> bytes_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return {reinterpret_cast<const uint8_t*>(&v4.sin_addr), sizeof(v4.sin_addr)};
  }
  if (address.sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    return {reinterpret_cast<const uint8_t*>(&v6.sin6_addr), sizeof(v6.sin6_addr)};
  }
  return {};
}

int ones_in(std::span<const uint8_t> mask) {
  int ones = 0;
  for (const uint8_t byte : mask) {
    ones += std::popcount(byte);
  }
  return ones;
}

std::string text_of(std::span<const uint8_t> address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = address.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
  ::inet_ntop(family, address.data(), text.data(), text.size());
  return text.data();
}

// 169.254/16 and fe80::/10: link-local addresses are usable only together with an interface.
bool is_link_local(std::span<const uint8_t> address) {
  return address.size() == sizeof(in_addr) ? address[0] == 169 && address[1] == 254
                                           : address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

// IFF_UP is the setting of the administrator, IFF_RUNNING the carrier: an InfiniBand port without a
// cable is up but does not run.
std::optional<InterfaceAddress> find_address_in(const ifaddrs& entry) {
  constexpr unsigned kUsable = IFF_UP | IFF_RUNNING;
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & kUsable) != kUsable) {
    return std::nullopt;
  }
  const std::span<const uint8_t> bytes = bytes_of(*entry.ifa_addr);
  if (bytes.empty() || is_link_local(bytes)) {
    return std::nullopt;
  }
  InterfaceAddress found{.interface = entry.ifa_name, .text = text_of(bytes)};
  found.is_v6 = bytes.size() == sizeof(in6_addr);
  found.is_loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0;
  found.prefix = entry.ifa_netmask != nullptr ? ones_in(bytes_of(*entry.ifa_netmask))
                                              : static_cast<int>(bytes.size()) * 8;
  return found;
}

}  // namespace

// A host can have several addresses (IPv4 and IPv6); the first with a route decides, in the order
// of the name service, which is the order in which connect() would be tried.
std::optional<std::string> find_local_address_towards(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  // Port 9 (discard) only completes the address; connect() of a datagram socket sends no packet.
  if (::getaddrinfo(host.c_str(), "9", &wanted, &list) != 0) {
    return std::nullopt;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* target = list; target != nullptr; target = target->ai_next) {
    if (auto found = source_address(*target)) {
      return found;
    }
  }
  return std::nullopt;
}

std::vector<std::string> interface_names() {
  std::vector<std::string> names;
  struct if_nameindex* list = ::if_nameindex();
  if (list == nullptr) {
    return names;
  }
  const std::unique_ptr<struct if_nameindex, decltype(&::if_freenameindex)> owner(
      list, &::if_freenameindex);
  for (const auto* entry = list; entry->if_index != 0; ++entry) {
    names.emplace_back(entry->if_name);
  }
  return names;
}

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    throw system_error(
        ExitCode::Unavailable, "cannot list the network addresses of this machine", errno);
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<InterfaceAddress> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (auto found = find_address_in(*entry)) {
      addresses.push_back(std::move(*found));
    }
  }
  return addresses;
}

// Two addresses are in the same network if the results are equal texts.
std::optional<std::string> find_network(const std::string& address, int prefix) {
  std::array<uint8_t, sizeof(in6_addr)> room{};
  size_t size = 0;
  if (::inet_pton(AF_INET, address.c_str(), room.data()) == 1) {
    size = sizeof(in_addr);
  } else if (::inet_pton(AF_INET6, address.c_str(), room.data()) == 1) {
    size = sizeof(in6_addr);
  }
  if (prefix < 0 || size == 0 || prefix > static_cast<int>(size) * 8) {
    return std::nullopt;
  }
  const std::span<uint8_t> bytes(room.data(), size);
  for (size_t i = 0; i < size; ++i) {
    // The bits of this byte that belong to the network.
    const int kept = std::clamp(prefix - static_cast<int>(i) * 8, 0, 8);
    bytes[i] &= static_cast<uint8_t>(0xff << (8 - kept));
  }
  return fmt::format("{}/{}", text_of(bytes), prefix);
}

}  // namespace lockstep::os
