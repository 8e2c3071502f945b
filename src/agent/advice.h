// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::agent {

struct Failure;

// What to try after a failure.
struct Advice {
  std::string id;    // for programs: "cuda-out-of-memory"; empty: nobody knows
  std::string text;  // for people, one sentence with something to type; empty as well then

  bool operator==(const Advice&) const = default;
};

// From how the worker died and what it said last. A guess from a table of patterns: right for the
// failures that people ask about, silent for the others.
Advice advise(const Failure& failure);

}  // namespace lockstep::agent
