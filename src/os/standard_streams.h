// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace lockstep::os
