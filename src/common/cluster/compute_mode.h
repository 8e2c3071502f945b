// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::cluster {

// The GPUs that accept no further process, each as a sentence ("GPU 0 is in exclusive mode, and
// process 4711 uses it"). `gpus` limits the answer to these numbers; empty: all GPUs. None if
// `library`, NVML, is not available.
std::vector<std::string> list_closed_gpus(const std::string& library, const std::vector<int>& gpus);

}  // namespace lockstep::cluster
