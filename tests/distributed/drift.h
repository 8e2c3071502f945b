// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/strategy.h"

namespace lockstep {

// The difference between a distributed training and one process on the same global batches.
struct Drift {
  double relative = 0;     // largest difference of a parameter, relative to its tensor's largest
  bool identical = false;  // parameters are bit-identical on all ranks after every step
};

struct DriftOptions {
  torch::ScalarType type = torch::kFloat64;
  int steps = 20;
  int accumulate = 1;
  int64_t global_batch = 24;
  std::string strategy = "ddp";
};

// Trains a convolutional network with momentum under `strategy` on these workers, and the same
// network in one process with -s single on the entire batches. All ranks return the same result.
Drift measure_drift(Communicator& comm, const DriftOptions& options);

}  // namespace lockstep
