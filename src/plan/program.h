// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.h"

namespace lockstep::plan {

// Fills in what each worker executes: command, program_word, the local rank's argument.
void read_program(LaunchPlan& plan, const Request& request, const Surroundings& here);

// Whether Python will run it, by us or by its own name.
bool runs_python(const LaunchPlan& plan);

// The variables that the user, or we, give to every worker.
Variables read_variables(const Request& request, const Surroundings& here);

// Adds `value`, or what the environment says already.
void add_where_unset(Variables& variables,
                     const os::Environment& environment,
                     std::string_view name,
                     Sourced<std::string> value);

}  // namespace lockstep::plan
