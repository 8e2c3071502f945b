// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/communicator.h"

namespace lockstep {

// Calls every collective of `comm` with tensors on `device`. All ranks must call it. Returns one
// line per error on this rank; empty if there is none. The requirements are the same for every
// transport. `counts` are the lengths of the tensors. The default lengths are next to the
// boundaries of the chunks in shared memory (128 and 512 KiB, 4-byte elements), and cover several
// chunks.
std::string faults_of_collectives(Communicator& comm,
                                  torch::Device device = torch::kCPU,
                                  const std::vector<int64_t>& counts = {
                                      1, 7, 1000, 4096, 4097, 32767, 32768, 32769, 131073, 400001});

}  // namespace lockstep
