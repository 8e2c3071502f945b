// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "slurm/job.h"

namespace lockstep::slurm {

// Letters, digits and _, no digit first.
bool is_variable_name(std::string_view name);

// Throws an Error (64) with the `source` for a name that no shell takes.
void require_names(const Pairs& variables, std::string_view source);

// Whether a variable must not be shown: its name says so, or its value is a URL with a password. A
// value that only names another variable gives nothing away: ${WANDB_API_KEY}.
bool is_secret(std::string_view name, std::string_view value);

Pairs secrets_among(Pairs variables);

// Gives them to the job: those that its script may show, and the names of the others.
void take_variables(const Pairs& variables, Job& job);

// Adds a proxy in both spellings, http_proxy and HTTP_PROXY, as programs look for either.
void add_proxy(Pairs& variables, const std::string& name, const std::string& value);

}  // namespace lockstep::slurm
