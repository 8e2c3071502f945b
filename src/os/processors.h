// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::os {

// Logical processors in this process's affinity mask.
int usable_processors();

}  // namespace lockstep::os
