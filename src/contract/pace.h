// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "contract/run_directory.h"

namespace lockstep::contract {

// How fast a run was, as its events tell it (docs/events.md).
struct Pace {
  std::optional<double> checkpoint_seconds;  // the longest of the last ten
  std::optional<double> step_seconds;        // between the last two events of steps

  bool operator==(const Pace&) const = default;
};

// Empty where there are no events, or none that tell.
Pace find_pace(const RunDirectory& run);

}  // namespace lockstep::contract
