// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace lockstep::plan {

// plan.json, there and back: docs/launch.md shows it.
std::string to_json(const LaunchPlan& plan);

// Throws an Error (74) that tells what is missing or wrong.
LaunchPlan parse_plan(std::string_view text);

}  // namespace lockstep::plan
