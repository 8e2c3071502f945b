// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/doctor/finding.h"

namespace lockstep::doctor {

// Report for users, at most 100 columns wide: sections with one line per finding, then the verdict.
std::string to_text(const Facts& facts, const Findings& findings);

// JSON report with all findings and facts.
std::string to_json(const Facts& facts, const Findings& findings);

}  // namespace lockstep::doctor
