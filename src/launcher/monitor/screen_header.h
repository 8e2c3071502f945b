// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launcher/monitor/screen.h"

namespace lockstep::monitor {

// The lines above the table of ranks: the run, its progress and its loss.
std::vector<ScreenLine> header_lines(const Snapshot& snapshot,
                                     const std::vector<Point>& loss,
                                     const ScreenSize& size,
                                     double now);

}  // namespace lockstep::monitor
