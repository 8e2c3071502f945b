// SPDX-License-Identifier: Apache-2.0
#include "os/network.h"

#include <array>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

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

// A datagram socket that is "connected" has a source address chosen by the kernel's routes.
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

}  // namespace

std::optional<std::string> find_local_address_towards(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
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

}  // namespace lockstep::os
