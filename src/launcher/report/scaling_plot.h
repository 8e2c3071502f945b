// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/report/scaling.h"

namespace lockstep::report {

// A chart of samples per second over workers: measurements, model and ideal scaling.
std::string scaling_svg(const Scaling& scaling);

// A self-contained page with charts of throughput, efficiency, exposed communication and energy per
// sample, and with the tables.
std::string scaling_page(const Scaling& scaling);

}  // namespace lockstep::report
