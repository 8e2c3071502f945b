// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.h"
#include "plan/sizes.h"

namespace lockstep::plan {

// Throws an Error (64) that names both when two options exclude each other, and for what is
// understood but cannot be honoured.
void require_consistent(const Request& request, const Sizes& sizes);

}  // namespace lockstep::plan
