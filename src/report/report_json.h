// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "report/run_facts.h"

namespace lockstep::report {

// The report for programs, docs/report.md; what is not known is null.
std::string report_json(const RunFacts& facts);

}  // namespace lockstep::report
