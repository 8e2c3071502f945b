// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <torch/torch.h>

#include "lockstep/communicator.h"
#include "lockstep/error.h"

namespace lockstep::comm {

class CallRecord;

// How messages call an all-reduce of this kind.
const char* name_of(Reduction reduction);

// What must be the same on every worker for a call to mean anything.
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

  // In one word, so that comparing costs nothing; and back.
  uint64_t packed() const;
  static CallSignature unpacked(uint64_t word);

  // "all-reduce of 1 200 floats".
  std::string text() const;
};

// That of a barrier which `record` says has begun.
CallSignature barrier_signature(const CallRecord& record);

// The Error of workers that make different calls; `calls` are theirs in the order of ranks, nothing
// for one that has not come yet.
Error different_calls(std::span<const std::optional<CallSignature>> calls);

}  // namespace lockstep::comm
