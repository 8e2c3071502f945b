// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>

namespace lockstep {

// The earliest of the times that are given; nothing if none is.
template <typename Time>
std::optional<Time> earliest(std::initializer_list<std::optional<Time>> times) {
  std::optional<Time> first;
  for (const std::optional<Time>& time : times) {
    if (time && (!first || *time < *first)) {
      first = time;
    }
  }
  return first;
}

}  // namespace lockstep
