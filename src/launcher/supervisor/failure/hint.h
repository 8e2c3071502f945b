// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/contract/failure_report.h"

namespace lockstep::supervisor {

// A hint after a failure.
struct FailureHint {
  std::string id;    // for programs: "cuda-out-of-memory"; empty: no hint
  std::string text;  // for people: one sentence with something to type; empty if id is

  bool operator==(const FailureHint&) const = default;
};

// Looks the failure up in a table of known patterns, by exit status and last output. Returns an
// empty FailureHint if no pattern matches.
FailureHint find_hint(const contract::Failure& failure);

}  // namespace lockstep::supervisor
