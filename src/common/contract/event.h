// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::contract {

// One event of a worker, a JSON line; see docs/events.md.
struct Event {
  using Value = std::variant<int64_t, double, std::string>;

  std::string kind;  // "start", "step", "evaluation", "checkpoint", "end"
  double time = 0;   // seconds since the epoch
  int rank = 0;
  std::vector<std::pair<std::string, Value>> fields = {};

  bool operator==(const Event&) const = default;
};

std::string to_json(const Event& event);

// Throws an Error that quotes the line if it is not an event.
Event parse_event(std::string_view line);

// The numeric field `name`, integer or floating point.
std::optional<double> find_number(const Event& event, std::string_view name);

}  // namespace lockstep::contract
