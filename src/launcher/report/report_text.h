// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/report/page.h"

namespace lockstep::report {

// The page for a terminal, at most 100 columns wide.
std::string report_text(const Page& page);

}  // namespace lockstep::report
