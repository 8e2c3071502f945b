// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/plan.h"

// Metrics from the output of any program: --metric NAME=REGEX.
namespace lockstep::plan {

// A Perl-compatible regular expression whose first group captures a number. Matching takes bounded
// time: a line that exceeds the limit does not match. Not thread-safe, not even find(), which
// reuses one match buffer.
class NumberPattern {
 public:
  // Throws an Error (64) when the expression is invalid or has no group.
  explicit NumberPattern(const std::string& text);
  NumberPattern(NumberPattern&&) noexcept;
  NumberPattern& operator=(NumberPattern&&) noexcept;
  ~NumberPattern();

  // The number of the first match. Nothing if the line does not match or the group is not a number.
  std::optional<double> find(std::string_view line) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

// Throws an Error (64) that quotes the first invalid metric.
std::vector<Metric> read_metrics(std::span<const OptionValue> given);

// Seconds between two samples of a node; 0: none.
Sourced<double> read_sample_every(const OptionValue& given);

}  // namespace lockstep::plan
