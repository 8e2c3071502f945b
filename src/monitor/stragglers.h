// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "monitor/snapshot.h"

namespace lockstep::monitor {

// Marks those who hold the gang up, and says why: ranks whose own step time, without waiting for
// others, is beyond the median by three median deviations and a tenth of it, and ranks that are
// more than `usual_lag` steps behind the foremost. Pure. With less than two ranks there is none.
void mark_stragglers(std::span<RankView> ranks, int64_t usual_lag);

}  // namespace lockstep::monitor
