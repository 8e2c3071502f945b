// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "common/contract/run_directory.h"

namespace lockstep::contract {

// The speed of a run, from its events (docs/events.md).
struct Pace {
  std::optional<double> checkpoint_seconds;  // maximum of the last ten
  std::optional<double> step_seconds;        // between the last two step events

  bool operator==(const Pace&) const = default;
};

// Fields are empty if no event provides them.
Pace find_pace(const RunDirectory& run);

}  // namespace lockstep::contract
