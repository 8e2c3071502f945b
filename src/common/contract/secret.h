// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep::contract {

// Whether the value of a variable must not be written to a file that others can read, such as
// plan.json or a job script: its name marks a secret (HF_TOKEN, WANDB_API_KEY), or its value is a
// URL with a password. A value that only refers to another variable is not secret:
// ${WANDB_API_KEY}.
bool is_secret(std::string_view name, std::string_view value);

}  // namespace lockstep::contract
