// SPDX-License-Identifier: Apache-2.0
#include "cluster/oom.h"

#include <fstream>
#include <iterator>
#include <string>

#include "base/text.h"

namespace lockstep::cluster {

std::optional<int64_t> find_oom_kills() {
  std::ifstream file("/proc/vmstat");
  return find_oom_kills_in(
      std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
}

std::optional<int64_t> find_oom_kills_in(std::string_view vmstat) {
  constexpr std::string_view kName = "oom_kill ";
  for (const std::string& line : split(vmstat, '\n')) {
    if (line.starts_with(kName)) {
      return find_integer(std::string_view(line).substr(kName.size()));
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::cluster
