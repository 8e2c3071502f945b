// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "report/scaling.h"

namespace lockstep::report {

// Samples per second over workers: what was measured, the model, and what would be ideal.
std::string scaling_svg(const Scaling& scaling);

// A page that needs no other file: throughput, efficiency, exposed communication and energy per
// sample as charts, and the tables.
std::string scaling_page(const Scaling& scaling);

}  // namespace lockstep::report
