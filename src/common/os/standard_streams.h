// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <string_view>

namespace lockstep::os {

// Opens /dev/null as stdin, stdout or stderr if this process was started without them, as by some
// daemons. Otherwise the next opened files would take their numbers.
void open_missing_streams();

// Writes to stdout, after the contents of stdio's buffer. False if the reader has closed, which is
// not an error; throws an Error (74) for any other failure, such as a full disk.
bool write_output(std::string_view text);

// Flushes stdio in the same way. Call it before a program exits successfully.
void finish_output();

// Whether `fault` is a failure of stdio to write stdout, as thrown by fmt. If so, prints the error
// for the program `name`, unless the reader has closed, and returns the exit code.
std::optional<int> report_lost_output(std::string_view name, const std::exception& fault);

}  // namespace lockstep::os
