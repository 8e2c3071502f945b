// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace lockstep::os {

bool is_terminal(int fd);

// Columns of the terminal behind `fd`; nothing when there is none, or it does not tell.
std::optional<int> find_terminal_columns(int fd);

}  // namespace lockstep::os
