// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/report/run_facts.h"

namespace lockstep::report {

// The report as JSON (docs/report.md); unknown values are null.
std::string report_json(const RunFacts& facts);

}  // namespace lockstep::report
