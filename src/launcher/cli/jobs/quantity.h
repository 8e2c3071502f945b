// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace lockstep::cli {

struct Unit {
  std::string_view name;  // case matters: Gb/s are bits, GB/s are bytes
  double factor;
};

// "400Gb/s" or "400 Gb/s": a number and one of `units`; the unit with an empty name is for a number
// alone. Nothing for any other text, including infinity and negative numbers.
std::optional<double> find_quantity(std::string_view text, std::span<const Unit> units);

}  // namespace lockstep::cli
