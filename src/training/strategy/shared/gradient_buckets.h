// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>
#include <vector>

#include "lockstep/communicator.h"
#include "lockstep/strategy.h"

namespace lockstep::strategy {

// Sums gradients over all workers in few messages. Gradients of one type are copied into flat
// buckets of at most `bucket_bytes` (or one parameter):
//
//   | has a gradient, 1 value per parameter | gradient 0 | gradient 1 | ... |
//
// The sum of the flags shows whether any worker has a gradient. A parameter without one on all
// workers is left without a gradient, as in one process.
class GradientBuckets {
 public:
  // `compression`: none, fp16 or bf16, for messages of float32 and float64.
  GradientBuckets(const std::vector<torch::Tensor>& parameters,
                  int64_t bucket_bytes,
                  Compression compression);

  // Replaces every gradient by the sum over all workers. All workers must call it.
  void sum(Communicator& communicator) const;

  // Number of buckets, and thus of messages per step.
  size_t count() const { return buckets_.size(); }

 private:
  struct Bucket {
    std::vector<torch::Tensor> parameters;
    int64_t values = 0;
  };

  torch::Tensor count_gradients(Communicator& communicator) const;
  // `known`: the number of workers with a gradient, by parameter; undefined: the flags are part of
  // the bucket.
  void sum(Communicator& communicator, const Bucket& bucket, const torch::Tensor& known) const;

  std::vector<Bucket> buckets_;
  Compression compression_;
};

}  // namespace lockstep::strategy
