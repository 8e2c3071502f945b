// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/communicator.h"

namespace lockstep {

// Goes through every collective of `comm`, which all ranks must do, and returns what was wrong on
// this rank, one line each; empty if all was right. The same promises for every transport.
// `counts` are the lengths of the tensors: around the edges of the chunks of shared memory (128 and
// 512 KiB, 4-byte elements), and several of them.
// The tensors are on `device`.
std::string faults_of_collectives(Communicator& comm,
                                  torch::Device device = torch::kCPU,
                                  const std::vector<int64_t>& counts = {
                                      1, 7, 1000, 4096, 4097, 32767, 32768, 32769, 131073, 400001});

}  // namespace lockstep
