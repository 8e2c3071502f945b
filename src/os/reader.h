// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::os {

// Whether somebody may still read what is written to a pipe or socket. Always true of a file.
bool has_reader(int fd);

}  // namespace lockstep::os
