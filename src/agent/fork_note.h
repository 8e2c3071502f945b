// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace lockstep::agent {

// Whether the program carries the note of contract/fork_offer.h: an ELF file of this machine's kind
// whose PT_NOTE segments hold it. A script, or a damaged file, does not.
bool program_takes_fork_offer(const std::filesystem::path& program);

}  // namespace lockstep::agent
