// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace lockstep::supervisor {

// Whether the program supports the fork server: a 64-bit ELF file whose PT_NOTE segments contain
// the note of contract/fork_offer.h. False for a script or a damaged file.
bool program_takes_fork_offer(const std::filesystem::path& program);

}  // namespace lockstep::supervisor
