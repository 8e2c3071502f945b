// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

// Numbers that a program of any kind prints, and how they are found: --metric NAME=REGEX.
namespace lockstep::plan {

// A regular expression, as Perl and Python have them, whose first group is a number. Takes bounded
// time: a line on which it would need too much does not match. One thread at a time.
class NumberPattern {
 public:
  // Throws an Error (64) when it is no regular expression, or has no group.
  explicit NumberPattern(const std::string& text);
  NumberPattern(NumberPattern&&) noexcept;
  NumberPattern& operator=(NumberPattern&&) noexcept;
  ~NumberPattern();

  // Of the first match in the line; nothing where there is none, or its group is no number.
  std::optional<double> find(std::string_view line) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

// Throws an Error (64) that quotes the first one that cannot be.
std::vector<Metric> read_metrics(std::span<const Asked> asked);

// Seconds between two samples of a node; 0: none.
Sourced<double> read_sample_every(const Asked& asked);

}  // namespace lockstep::plan
