// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <torch/types.h>

#include "lockstep/communicator.h"
#include "lockstep/error.h"

namespace lockstep::comm {

class CallRecord;

// Name of an all-reduce with this reduction in messages.
const char* name_of(Reduction reduction);

// The properties of a call that must be equal on all workers.
struct CallSignature {
  enum class Kind : uint8_t {
    None,  // no call yet
    Barrier,
    AllReduce,
    Broadcast,
    AllGather,
    ReduceScatter,
    Subset,
    End,  // the worker makes no further call
  };

  Kind kind = Kind::None;
  torch::ScalarType type = torch::kUInt8;
  Reduction reduction = Reduction::Sum;
  int root = 0;
  int64_t count = 0;

  bool operator==(const CallSignature&) const = default;

  // Packed into one word, so that workers compare calls with a single load; and back. See
  // call_signature.cpp for the layout.
  uint64_t packed() const;
  static CallSignature unpacked(uint64_t word);

  // "all-reduce of 1 200 floats".
  std::string text() const;
};

// Signature of the barrier that `record` has begun: End for the barrier at the end of the program,
// otherwise Barrier.
CallSignature barrier_signature(const CallRecord& record);

// The Error for workers that make different calls. `calls` is indexed by rank; nullopt is a worker
// that has not arrived yet.
Error different_calls(std::span<const std::optional<CallSignature>> calls);

}  // namespace lockstep::comm
