// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/plan/plan.h"

namespace lockstep::plan {

// Sets what each worker executes: command, program_word and the local rank argument.
void read_program(LaunchPlan& plan, const Request& request, const HostEnvironment& here);

// Whether the program runs under Python, started by the launcher or by its own name.
bool runs_python(const LaunchPlan& plan);

// The variables that the options set for every worker.
Variables read_variables(const Request& request, const HostEnvironment& here);

// Adds `value`, unless the environment already has the variable: then its value.
void add_where_unset(Variables& variables,
                     const os::Environment& environment,
                     std::string_view name,
                     Sourced<std::string> value);

}  // namespace lockstep::plan
