// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <span>
#include <string>

#include "common/base/text.h"

namespace lockstep::supervisor {

// "n1, n2, n3 and 12 more": at most `most` names.
inline std::string name_some(std::span<const std::string> names, size_t most) {
  return names.size() <= most
             ? join(names, ", ")
             : fmt::format("{} and {} more", join(names.first(most), ", "), names.size() - most);
}

}  // namespace lockstep::supervisor
