// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/run_with_timeout.h"

#include "lockstep/error.h"

// The program is looked up first: starting one that does not exist would be an Error, and most of
// the programs that doctor asks for are optional.
namespace lockstep::doctor {

std::optional<os::CommandResult> run_with_timeout(const std::vector<std::string>& arguments,
                                                  const os::Environment& environment,
                                                  std::chrono::milliseconds limit) {
  if (!os::find_program(arguments.at(0), environment)) {
    return std::nullopt;
  }
  try {
    os::CommandResult result =
        os::run_command(arguments, {.environment = environment, .time_limit = limit});
    return result.is_out_of_time ? std::nullopt : std::optional(std::move(result));
  } catch (const Error&) {  // it exists, but this machine cannot execute it
    return std::nullopt;
  }
}

}  // namespace lockstep::doctor
