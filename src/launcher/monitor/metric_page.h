// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::monitor {

// Writes a page in the Prometheus text format, metric by metric.
class MetricPage {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  // Starts a metric of type "gauge" or "counter". Its HELP and TYPE lines are written with the
  // first value, so a metric without values is absent.
  void begin(std::string_view name, std::string_view type, std::string_view help);

  // Adds a value of the current metric. Labels with an empty value are omitted.
  void add(const Labels& labels, double value);

  // Adds nothing if there is no value.
  template <typename Number>
  void add(const Labels& labels, const std::optional<Number>& value) {
    if (value) {
      add(labels, static_cast<double>(*value));
    }
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::string name_;
  std::string head_;
};

}  // namespace lockstep::monitor
