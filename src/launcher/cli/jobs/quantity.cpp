// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/jobs/quantity.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "common/base/text.h"

namespace lockstep::cli {

std::optional<double> find_quantity(std::string_view text, std::span<const Unit> units) {
  text = trim(text);
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, number);
  if (fault != std::errc() || !std::isfinite(number) || number < 0) {
    return std::nullopt;
  }
  const std::string_view name = trim(std::string_view(rest, static_cast<size_t>(end - rest)));
  const auto unit = std::ranges::find(units, name, &Unit::name);
  return unit == units.end() ? std::nullopt : std::optional(number * unit->factor);
}

}  // namespace lockstep::cli
