// SPDX-License-Identifier: Apache-2.0
#include "contract/event.h"

#include <fmt/format.h>
#include <limits>

#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep::contract {

std::string to_json(const Event& event) {
  nlohmann::ordered_json line = {{"event", event.kind}, {"time", event.time}, {"rank", event.rank}};
  for (const auto& [name, value] : event.fields) {
    std::visit([&line, &key = name](const auto& content) { line[key] = content; }, value);
  }
  return line.dump();
}

Event parse_event(std::string_view line) {
  try {
    const auto value = nlohmann::ordered_json::parse(line);
    Event event{.kind = value.at("event").get<std::string>(),
                .time = value.at("time").get<double>(),
                .rank = value.at("rank").get<int>()};
    for (const auto& [name, content] : value.items()) {
      if (name == "event" || name == "time" || name == "rank") {
        continue;
      }
      if (content.is_number_integer()) {
        event.fields.emplace_back(name, content.get<int64_t>());
      } else if (content.is_number()) {
        event.fields.emplace_back(name, content.get<double>());
      } else if (content.is_null()) {  // as which JSON writes what is no number
        event.fields.emplace_back(name, std::numeric_limits<double>::quiet_NaN());
      } else {
        event.fields.emplace_back(name, content.get<std::string>());
      }
    }
    return event;
  } catch (const nlohmann::json::exception& fault) {
    throw Error(ExitCode::Io, fmt::format("cannot read the event '{}'", line))
        .fact("reason", fault.what());
  }
}

std::optional<double> find_number(const Event& event, std::string_view name) {
  for (const auto& [field, value] : event.fields) {
    if (field != name) {
      continue;
    }
    if (const auto* real = std::get_if<double>(&value)) {
      return *real;
    }
    if (const auto* whole = std::get_if<int64_t>(&value)) {
      return static_cast<double>(*whole);
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::contract
