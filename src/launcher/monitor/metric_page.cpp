// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/metric_page.h"

#include <cmath>
#include <fmt/format.h>

// The text format requires that all values of a metric follow its HELP and TYPE lines in one group.
// Callers therefore loop over metrics first and over runs, nodes and ranks inside.
//
//   # HELP lockstep_rank_step Last step that the rank reported.
//   # TYPE lockstep_rank_step gauge
//   lockstep_rank_step{run="a",rank="0"} 40
namespace lockstep::monitor {
namespace {

// Label values: backslash, quote and line feed, as the exposition format 0.0.4 specifies.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') {
      safe += '\\';
      safe += letter;
    } else if (letter == '\n') {
      safe += "\\n";
    } else {
      safe += letter;
    }
  }
  return safe;
}

std::string number_text(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "+Inf" : "-Inf";
  }
  return fmt::format("{}", value);
}

}  // namespace

void MetricPage::begin(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  head_ = fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricPage::add(const Labels& labels, double value) {
  text_ += std::exchange(head_, "");
  text_ += name_;
  bool is_open = false;
  for (const auto& [label, content] : labels) {
    if (!content.empty()) {
      text_ += fmt::format("{}{}=\"{}\"", is_open ? "," : "{", label, escaped(content));
      is_open = true;
    }
  }
  text_ += fmt::format("{} {}\n", is_open ? "}" : "", number_text(value));
}

}  // namespace lockstep::monitor
