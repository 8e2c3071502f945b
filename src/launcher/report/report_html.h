// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/report/page.h"
#include "launcher/report/svg_chart.h"

namespace lockstep::report {

// A self-contained page: no script, no external files, for dark and light themes and for wide and
// narrow screens.
std::string report_html(const Page& page, const std::vector<Chart>& charts);

}  // namespace lockstep::report
