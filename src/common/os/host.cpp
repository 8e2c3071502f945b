// SPDX-License-Identifier: Apache-2.0
#include "common/os/host.h"

#include <array>
#include <climits>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <system_error>
#include <unistd.h>

namespace lockstep::os {

// gethostname() need not terminate a truncated name; the last byte of the array stays zero for
// that.
std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    return "localhost";
  }
  return name.data();
}

std::string local_timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm moment{};
  ::localtime_r(&now, &moment);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}",
                     moment.tm_year + 1900,
                     moment.tm_mon + 1,
                     moment.tm_mday,
                     moment.tm_hour,
                     moment.tm_min,
                     moment.tm_sec);
}

std::vector<std::string> addresses_of(const std::string& name) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &wanted, &list) != 0) {
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(
            one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
        0) {
      addresses.emplace_back(text.data());
    }
  }
  return addresses;
}

// The kernel appends " (deleted)" if the file was replaced since the start of this process.
std::string own_executable() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
}

}  // namespace lockstep::os
