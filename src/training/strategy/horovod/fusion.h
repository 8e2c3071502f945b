// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string_view>
#include <torch/types.h>
#include <vector>

#include "lockstep/communicator.h"
#include "training/strategy/horovod/message.h"
#include "training/strategy/horovod/timeline.h"

namespace lockstep::strategy::horovod {

// Groups tensors into fusion buffers: tensors of one type and operation, in the given order, up to
// `fusion_bytes`; 0: each tensor alone. Returns indices into `tensors`.
std::vector<std::vector<size_t>> plan_fusion(const std::vector<Signature>& tensors,
                                             int64_t fusion_bytes);

// One tensor of a reduction: the negotiated signature, and the value of this worker.
struct Share {
  Signature tensor;
  torch::Tensor value;  // replaced by the result; undefined: this worker contributes zeros
};

// Reduces tensors over all workers through a buffer that is reused. Not thread-safe.
class FusionBuffer {
 public:
  FusionBuffer(Communicator& channel, Timeline* timeline);

  // All shares must have one type and operation, equal on all workers.
  void reduce(std::vector<Share>& shares);

 private:
  torch::Tensor slot(c10::ScalarType type, int64_t elements);
  void reduce_alone(Share& share);
  void reduce_together(std::vector<Share>& shares);
  void sum(torch::Tensor& buffer);
  void adasum(torch::Tensor& buffer, const std::vector<Share>& shares);
  void begin(const std::vector<Share>& shares, std::string_view phase);
  void end(const std::vector<Share>& shares);

  Communicator& channel_;
  Timeline* timeline_;
  std::string transport_phase_;
  std::map<c10::ScalarType, torch::Tensor> buffers_;
};

}  // namespace lockstep::strategy::horovod
