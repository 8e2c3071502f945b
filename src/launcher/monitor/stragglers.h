// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "launcher/monitor/snapshot.h"

namespace lockstep::monitor {

// Marks stragglers and sets the reason. A rank is a straggler if its own step time, without waiting
// for other ranks, exceeds the median by more than three median absolute deviations and by more
// than a tenth of the median, or if it is more than `usual_lag` steps behind the foremost rank.
// With fewer than two ranks there are no stragglers.
void mark_stragglers(std::span<RankView> ranks, int64_t usual_lag);

}  // namespace lockstep::monitor
