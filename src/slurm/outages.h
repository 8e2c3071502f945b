// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "lockstep/error.h"

namespace lockstep::slurm {

// Whether what a client of Slurm's wrote to stderr tells of Slurm itself: a controller that is not
// there, a munge that does not run, no configuration. As an Error (69) for the user.
std::optional<Error> find_outage(std::string_view program, std::string_view errors);

// This machine has no such program.
Error missing_client(std::string_view program, std::string_view path);

// A client that did not end in time.
Error silent_client(std::string_view program, double seconds);

}  // namespace lockstep::slurm
