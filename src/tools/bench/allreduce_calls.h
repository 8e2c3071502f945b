// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <torch/types.h>

#include "lockstep/communicator.h"
#include "lockstep/error.h"

// Common parts of the all-reduce measurements.
namespace lockstep::bench {

// Rank r contributes r + 1 in every element.
inline void require_right_sums(Communicator& comm, torch::Tensor& tensor) {
  tensor.fill_(comm.rank() + 1);
  comm.all_reduce(tensor);
  const int wanted = comm.size() * (comm.size() + 1) / 2;
  if (!tensor.eq(wanted).all().item<bool>()) {
    throw Error(ExitCode::Bug, "cannot measure: an all-reduce returned a wrong sum")
        .fact("bytes", std::to_string(tensor.nbytes()))
        .fact("transport", comm.kind());
  }
  tensor.zero_();
}

// The number of calls that fit into the time. Rank 0 decides, so that all ranks make the same
// number.
inline int64_t calls_for(Communicator& comm, double seconds_of_one, double seconds) {
  torch::Tensor calls =
      torch::full({1}, std::clamp(seconds / seconds_of_one, 5.0, 20000.0), torch::kFloat64);
  comm.broadcast(calls);
  return static_cast<int64_t>(calls.item<double>());
}

}  // namespace lockstep::bench
