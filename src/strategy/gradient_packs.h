// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>
#include <vector>

#include "lockstep/communicator.h"
#include "lockstep/strategy.h"

namespace lockstep::strategy {

// Sums gradients over the gang in few messages: those of one type are copied into flat packs of at
// most `pack_bytes` (or one parameter). A pack begins with a flag for each of its parameters, so
// that one which has a gradient nowhere is left without, as in one process.
class GradientPacks {
 public:
  // `compression`: none, fp16 or bf16, of float32 and float64 on their way.
  GradientPacks(const std::vector<torch::Tensor>& parameters,
                int64_t pack_bytes,
                Compression compression);

  // Replaces every gradient by the sum over the gang; all workers call it.
  void sum(Communicator& communicator) const;

  // Packs, which is messages per step.
  size_t count() const { return packs_.size(); }

 private:
  struct Pack {
    std::vector<torch::Tensor> parameters;
    int64_t values = 0;
  };

  torch::Tensor count_gradients(Communicator& communicator) const;
  // `known`: on how many workers each parameter has a gradient; undefined: goes along in the pack.
  void sum(Communicator& communicator, const Pack& pack, const torch::Tensor& known) const;

  std::vector<Pack> packs_;
  Compression compression_;
};

}  // namespace lockstep::strategy
