// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/questions.h"

#include <chrono>

#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/cluster/interfaces.h"
#include "common/os/environment.h"

// Questions and their answers, as texts of Ask and Answered:
//
//   {"what": "clock"}                            1706693400.25
//   {"what": "gid", "interface": "ib0"}          3, or null
//   {"what": "facts", "is_quick": false, ...}    {NodeFacts}
//   anything else                                empty
namespace lockstep::doctor {
namespace {

using Json = nlohmann::json;

constexpr const char* kWhat = "what";

Json read(const std::string& text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace

std::string clock_question() {
  return Json{{kWhat, "clock"}}.dump();
}

std::optional<double> find_clock(const std::string& answer) {
  const Json json = read(answer);
  return json.is_number() ? std::optional(json.get<double>()) : std::nullopt;
}

std::string gid_question(const std::string& interface) {
  return Json{{kWhat, "gid"}, {"interface", interface}}.dump();
}

std::optional<int> find_gid(const std::string& answer) {
  const Json json = read(answer);
  return json.is_number_integer() ? std::optional(json.get<int>()) : std::nullopt;
}

std::string facts_question(const CollectOptions& options) {
  return Json{{kWhat, "facts"},
              {"is_quick", options.is_quick},
              {"names", options.names},
              {"file_in_home", options.file_in_home},
              {"file_in_directory", options.file_in_directory}}
      .dump();
}

std::string answer(const std::string& question) {
  const Json json = read(question);
  const std::string what = json.is_object() ? json.value(kWhat, "") : "";
  if (what == "clock") {
    return Json(wall_time()).dump();
  }
  if (what == "gid") {
    const auto index = cluster::find_roce_gid_index(json.value("interface", ""));
    return index ? std::to_string(*index) : "null";
  }
  if (what == "facts") {
    const CollectOptions options{.is_quick = json.value("is_quick", false),
                                 .names = json.value("names", std::vector<std::string>()),
                                 .file_in_home = json.value("file_in_home", ""),
                                 .file_in_directory = json.value("file_in_directory", "")};
    return to_json_text(collect_node(os::environment(), options));
  }
  return "";
}

}  // namespace lockstep::doctor
