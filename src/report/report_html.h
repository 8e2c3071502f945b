// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "report/page.h"
#include "report/svg_chart.h"

namespace lockstep::report {

// One page that needs nothing else: no script, nothing fetched, for dark and light, wide and
// narrow.
std::string report_html(const Page& page, const std::vector<Chart>& charts);

}  // namespace lockstep::report
