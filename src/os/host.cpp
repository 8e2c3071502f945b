// SPDX-License-Identifier: Apache-2.0
#include "os/host.h"

#include <array>
#include <climits>
#include <ctime>
#include <fmt/format.h>
#include <unistd.h>

namespace lockstep::os {

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

}  // namespace lockstep::os
