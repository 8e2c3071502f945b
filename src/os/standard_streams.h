// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <string_view>

namespace lockstep::os {

// Opens /dev/null as standard input, output or error where this process was started without it, as
// some daemons start programs. Otherwise the next files to be opened would be taken for them.
void open_missing_streams();

// Writes to the standard output, after what stdio holds for it. False: its reader has gone, which
// is no error; throws an Error (74) for anything else, such as a full disk.
bool write_output(std::string_view text);

// The same for what stdio still holds: to be called before a program leaves with success.
void finish_output();

// Whether `fault` tells that stdio could not write the standard output, as fmt throws it. If so,
// says it for the program `name`, unless the reader has gone, and returns the exit code.
std::optional<int> tell_lost_output(std::string_view name, const std::exception& fault);

}  // namespace lockstep::os
