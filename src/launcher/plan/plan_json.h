// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "launcher/plan/plan.h"

namespace lockstep::plan {

// Conversion of a plan to and from plan.json, which docs/launch.md describes.
std::string to_json(const LaunchPlan& plan);

// Throws an Error (74) that names the missing or invalid field.
LaunchPlan parse_plan(std::string_view text);

}  // namespace lockstep::plan
