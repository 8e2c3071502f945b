// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "launcher/slurm/job.h"

namespace lockstep::slurm {

// Letters, digits and _; the first character is not a digit.
bool is_variable_name(std::string_view name);

// Throws an Error (64) with `source` for a name that is not valid in a shell.
void require_names(const Pairs& variables, std::string_view source);

// The secret ones among the variables.
Pairs secrets_among(Pairs variables);

// Adds the variables to the job: names and values, but only the names of secrets.
void take_variables(const Pairs& variables, Job& job);

// Adds a proxy as http_proxy and HTTP_PROXY, because programs read either.
void add_proxy(Pairs& variables, const std::string& name, const std::string& value);

}  // namespace lockstep::slurm
