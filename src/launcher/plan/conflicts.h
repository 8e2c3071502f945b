// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/plan/plan.h"
#include "launcher/plan/sizes.h"

namespace lockstep::plan {

// Throws an Error (64) when two options exclude each other, naming both, or when an option has a
// valid value that lockstep does not support.
void require_consistent(const Request& request, const Sizes& sizes);

}  // namespace lockstep::plan
