// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/export.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::monitor {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kEver = std::numeric_limits<double>::infinity();
// Half of the maximum, so that a sum with it cannot overflow.
constexpr size_t kAll = std::numeric_limits<size_t>::max() / 2;

// Whether a name matches a pattern. The depth of the recursion is the number of stars.
bool fits(std::string_view name, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) {
    return name == pattern;
  }
  if (!name.starts_with(pattern.substr(0, star))) {
    return false;
  }
  name.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  for (size_t skipped = 0; skipped <= name.size(); ++skipped) {
    if (fits(name.substr(skipped), pattern)) {
      return true;
    }
  }
  return false;
}

// The first names only: there may be thousands.
std::string some_of(std::vector<std::string> names) {
  constexpr size_t kSome = 12;
  if (names.empty()) {
    return "no series";
  }
  const size_t more = names.size() - std::min(kSome, names.size());
  names.resize(names.size() - more);
  return join(names, " ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

// Quotes a CSV field as in RFC 4180.
std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    return text;
  }
  std::string safe = "\"";
  for (const char letter : text) {
    safe += letter == '"' ? "\"\"" : std::string(1, letter);
  }
  return safe + "\"";
}

std::vector<Point> all_points(const EventStore& store, const std::string& name) {
  return store.series(name, -kEver, kEver, kAll);
}

}  // namespace

// A name that matches two patterns is exported once, so the result is sorted and made unique.
std::vector<std::string> choose_series(const EventStore& store,
                                       const std::vector<std::string>& patterns) {
  std::vector<std::string> names = store.series_names();
  if (patterns.empty()) {
    return names;
  }
  std::vector<std::string> chosen;
  for (const std::string& pattern : patterns) {
    const size_t before = chosen.size();
    std::copy_if(names.begin(),
                 names.end(),
                 std::back_inserter(chosen),
                 [&pattern](const std::string& name) { return fits(name, pattern); });
    if (chosen.size() == before) {
      throw Error(ExitCode::Usage, fmt::format("no series matches '{}'", pattern))
          .fact("found", some_of(names), "RUN/events")
          .hint(find_closest(pattern, names).value_or("omit --series to export all series"));
    }
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

bool is_chosen(std::string_view name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [name](const std::string& pattern) {
    return fits(name, pattern);
  });
}

std::string export_csv(const EventStore& store, const std::vector<std::string>& series) {
  std::string text = "kind,name,time,step,mean,low,high,text\n";
  for (const std::string& name : series) {
    for (const Point& point : all_points(store, name)) {
      text += fmt::format("series,{},{},{},{},{},{},\n",
                          quoted(name),
                          point.time,
                          point.step,
                          point.mean,
                          point.low,
                          point.high);
    }
  }
  for (const Mark& mark : store.marks()) {
    text += fmt::format("mark,{},{},{},,,,{}\n",
                        name_of(mark.kind),
                        mark.time,
                        mark.step < 0 ? "" : std::to_string(mark.step),
                        quoted(mark.text));
  }
  return text;
}

std::string export_json(const EventStore& store, const std::vector<std::string>& series) {
  const Snapshot snapshot = store.snapshot();
  Json json = {{"run",
                {{"run_id", snapshot.run_id},
                 {"directory", snapshot.directory},
                 {"job", snapshot.job},
                 {"phase", snapshot.phase},
                 {"command", snapshot.command},
                 {"strategy", snapshot.strategy},
                 {"workers", snapshot.world_size},
                 {"restarts", snapshot.restarts},
                 {"step", snapshot.step},
                 {"steps", snapshot.steps},
                 {"global_batch", snapshot.global_batch},
                 {"bad_lines", snapshot.bad_lines}}}};
  json["series"] = Json::object();
  for (const std::string& name : series) {
    Json& points = json["series"][name] = Json::array();
    for (const Point& point : all_points(store, name)) {
      points.push_back({point.time, point.step, point.mean, point.low, point.high});
    }
  }
  json["marks"] = Json::array();
  for (const Mark& mark : store.marks()) {
    json["marks"].push_back({{"kind", name_of(mark.kind)},
                             {"time", mark.time},
                             {"step", mark.step < 0 ? Json(nullptr) : Json(mark.step)},
                             {"text", mark.text}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::monitor
