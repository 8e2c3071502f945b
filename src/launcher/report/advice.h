// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/report/run_facts.h"

namespace lockstep::report {

// One recommendation; docs/report.md lists all rules.
struct Advice {
  std::string rule;                // "loader-bound"
  std::string seen;                // "GPU 2 idle 80 % of the time; its worker waits 61 % for data"
  std::string means;               // "the loader is too slow for the GPU"
  std::vector<std::string> tries;  // possible remedies, most with a command or option
};

// Applies a table of rules with fixed thresholds; failures come first. A rule that needs samples or
// events is skipped if they cover less than kMinSeconds.
std::vector<Advice> advise(const RunFacts& facts);

inline constexpr double kMinSeconds = 30;

// Why rules were skipped, one sentence for each group of rules.
std::vector<std::string> untried(const RunFacts& facts);

// The names of all rules, in the order of the table.
std::vector<std::string_view> rule_names();

}  // namespace lockstep::report
