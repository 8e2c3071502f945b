// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "lockstep/error.h"

namespace lockstep::os {

// An Error whose reason is the system's message for `number`, an errno.
Error system_error(ExitCode code, std::string_view sentence, int number);

}  // namespace lockstep::os
