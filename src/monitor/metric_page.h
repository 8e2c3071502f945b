// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::monitor {

// A page in Prometheus' text format, metric by metric.
class MetricPage {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  // Begins a metric, "gauge" or "counter"; its head is written only if a value comes.
  void begin(std::string_view name, std::string_view type, std::string_view help);

  // A value of the metric that was begun last. A label without content is left out.
  void add(const Labels& labels, double value);

  // Nothing where there is no value.
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
