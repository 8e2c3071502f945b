// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "doctor/finding.h"

namespace lockstep::doctor {

// For people, in at most 100 columns: sections, one line per finding, the verdict last.
std::string to_text(const Facts& facts, const Findings& findings);

// For programs: the findings, and every value that was found.
std::string to_json(const Facts& facts, const Findings& findings);

}  // namespace lockstep::doctor
