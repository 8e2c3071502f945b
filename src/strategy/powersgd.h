// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/torch.h>
#include <unordered_map>
#include <vector>

#include "lockstep/communicator.h"

namespace lockstep::strategy {

// PowerSGD (Vogels, Karimireddy, Jaggi 2019): a matrix of gradients travels as two thin ones, whose
// product is its projection on `rank` directions. What the projection leaves out stays on the
// worker and is added to its next gradient.
//
// Its state is that of a parameter, not of a bucket: buckets may be cut anew. All that is decided,
// drawn or kept for the next step comes from numbers that are the same on all workers, so that
// results are bit-identical.
class PowerSgd {
 public:
  // Throws an Error if `rank` is below 1.
  PowerSgd(const std::vector<torch::Tensor>& parameters, int rank);

  // `gradients` is flat: those of `parameters`, one after the other. Replaces them by an
  // approximation of their average over the gang, in two messages.
  void average(Communicator& communicator,
               torch::Tensor& gradients,
               const std::vector<torch::Tensor>& parameters);

 private:
  struct Memory {
    torch::Tensor directions;  // rank x columns; undefined before the first step
    torch::Tensor left_out;    // rows x columns, this worker's
    torch::Generator generator;
  };
  struct Matrix {
    torch::Tensor values;  // rows x columns, in the bucket
    Memory* memory = nullptr;
    torch::Tensor p;  // rank x rows, in the first message
    torch::Tensor q;  // rank x columns, in the second
  };
  // A bucket, and the two messages that it becomes.
  struct Parcel {
    std::vector<torch::Tensor> whole;        // tensors of the bucket that are too small to gain
    std::vector<torch::Tensor> whole_parts;  // where they are in the first message
    std::vector<Matrix> matrices;
    torch::Tensor first;  // the whole ones, then all P
    torch::Tensor all_p;
    torch::Tensor all_q;
  };

  // 0: too small to gain by it, travels whole.
  int64_t rank_for(const torch::Tensor& parameter) const;
  Memory& memory_of(const torch::Tensor& parameter, int64_t columns, int64_t rank);
  Parcel lay_out(const torch::Tensor& flat, const std::vector<torch::Tensor>& parameters);
  static void exchange(Communicator& communicator, Parcel& parcel);

  int64_t rank_;
  std::unordered_map<const void*, Memory> memories_;
};

}  // namespace lockstep::strategy
