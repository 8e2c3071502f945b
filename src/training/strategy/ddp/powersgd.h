// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/types.h>
#include <unordered_map>
#include <vector>

#include "lockstep/communicator.h"

namespace lockstep::strategy {

// PowerSGD (Vogels, Karimireddy, Jaggi 2019): a gradient matrix is sent as two thin matrices, whose
// product is its projection on `rank` directions. The remainder stays on the worker and is added to
// its next gradient (error feedback).
//
// State belongs to a parameter, not to a bucket, because buckets can change. All decisions, random
// numbers and directions are derived from values that are equal on all workers, so results are
// bit-identical.
class PowerSgd {
 public:
  // Throws an Error if `rank` is below 1.
  PowerSgd(const std::vector<torch::Tensor>& parameters, int rank);

  // `gradients` is flat and contains the gradients of `parameters` one after the other. Replaces
  // them by an approximation of their average over all workers, in two messages.
  void average(Communicator& communicator,
               torch::Tensor& gradients,
               const std::vector<torch::Tensor>& parameters);

 private:
  struct Memory {
    torch::Tensor directions;  // rank x columns; undefined before the first step
    torch::Tensor left_out;    // rows x columns, the remainder on this worker
    torch::Generator generator;
  };
  struct Matrix {
    torch::Tensor values;  // rows x columns, in the bucket
    Memory* memory = nullptr;
    torch::Tensor p;  // rank x rows, in the first message
    torch::Tensor q;  // rank x columns, in the second
  };
  // A bucket and its two messages.
  struct Bucket {
    std::vector<torch::Tensor> whole;        // tensors of the bucket that are sent uncompressed
    std::vector<torch::Tensor> whole_parts;  // their positions in the first message
    std::vector<Matrix> matrices;
    torch::Tensor first;  // uncompressed tensors, then all P
    torch::Tensor all_p;
    torch::Tensor all_q;
  };

  // 0: compression would not pay; the gradient is sent uncompressed.
  int64_t rank_for(const torch::Tensor& parameter) const;
  Memory& memory_of(const torch::Tensor& parameter, int64_t columns, int64_t rank);
  Bucket lay_out(const torch::Tensor& flat, const std::vector<torch::Tensor>& parameters);
  static void exchange(Communicator& communicator, Bucket& bucket);

  int64_t rank_;
  std::unordered_map<const void*, Memory> memories_;
};

}  // namespace lockstep::strategy
