// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/metric_page.h"

#include <cmath>
#include <fmt/format.h>

namespace lockstep::monitor {
namespace {

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
