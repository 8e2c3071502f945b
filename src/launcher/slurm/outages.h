// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "lockstep/error.h"

namespace lockstep::slurm {

// Finds an outage of Slurm in the error output of a Slurm command: no controller, no munge, no
// configuration. Returns it as an Error (69).
std::optional<Error> find_outage(std::string_view program, std::string_view errors);

// The Slurm command is not installed.
Error missing_client(std::string_view program, std::string_view path);

// The Slurm command did not end in time.
Error silent_client(std::string_view program, double seconds);

}  // namespace lockstep::slurm
