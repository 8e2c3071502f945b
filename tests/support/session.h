// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "training/train/session/session_parts.h"

namespace lockstep {

// Creates a Session for one rank, like run(), but without signal handling.
inline Session make_session(Communicator& comm,
                            const std::filesystem::path& run_dir,
                            train::Flags flags = {},
                            torch::Device device = torch::kCPU) {
  auto parts = std::make_unique<train::SessionParts>();
  parts->flags = std::move(flags);
  parts->flags.convolution = "im2col";
  parts->placement.worker.rank = comm.rank();
  parts->placement.worker.world_size = comm.size();
  parts->communicator = &comm;
  parts->device = device;
  parts->run_dir = contract::RunDirectory(run_dir);
  parts->events.emplace(parts->run_dir.events(comm.rank()));
  return SessionAccess::open(std::move(parts));
}

}  // namespace lockstep
