// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/strategy.h"

namespace lockstep {

// How far a gang's training is from that of one process on the same global batches.
struct Drift {
  double relative = 0;     // largest difference of a parameter, relative to its tensor's largest
  bool identical = false;  // parameters are the same on all ranks, to the bit, after every step
};

struct DriftOptions {
  torch::ScalarType type = torch::kFloat64;
  int steps = 20;
  int accumulate = 1;
  int64_t global_batch = 24;
  std::string strategy = "ddp";
};

// Trains a convolutional network with momentum under `strategy` on this gang, and the same network
// in one process with -s single on the whole batches; all ranks return the same.
Drift measure_drift(Communicator& comm, const DriftOptions& options);

}  // namespace lockstep
