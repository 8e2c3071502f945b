// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::cluster {

// How often the kernel's OOM killer has struck on this machine since it was started; nothing when
// the kernel does not tell.
std::optional<int64_t> find_oom_kills();

// The same from the text of /proc/vmstat.
std::optional<int64_t> find_oom_kills_in(std::string_view vmstat);

}  // namespace lockstep::cluster
