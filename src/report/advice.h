// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/run_facts.h"

namespace lockstep::report {

// One thing to do better, docs/report.md has all of them.
struct Advice {
  std::string rule;                // "loader-bound"
  std::string seen;                // "GPU 2 idle 80 % of the time; its worker waits 61 % for data"
  std::string means;               // "the loader is too slow for the GPU"
  std::vector<std::string> tries;  // what to type, one by one
};

// From a table of rules with fixed thresholds, faults first. None where nothing stands out, and
// none from less than kLeastSeconds of samples, where a rule needs them.
std::vector<Advice> advise(const RunFacts& facts);

inline constexpr double kLeastSeconds = 30;

// Why rules could not be tried, a sentence each.
std::vector<std::string> untried(const RunFacts& facts);

// The names of all rules, in their order.
std::vector<std::string_view> rule_names();

}  // namespace lockstep::report
