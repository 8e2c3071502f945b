// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/types.h>

namespace lockstep {

// One sample, without a batch dimension: the input of the model and the expected output.
//
//   Example digit{.input = image /* float32 [1, 28, 28] */, .target = torch::tensor(7)};
struct Example {
  torch::Tensor input;
  torch::Tensor target;
};

// The samples of one forward pass. The first dimension of both tensors is the number of samples.
//
//   const Batch batch = dataset->batch(indices).to(session.device());
//   const Batch first_half = batch.slice(0, batch.size() / 2);
//
// A Batch is a value with the semantics of two tensors: a copy shares their memory. Concurrent
// const calls are safe as long as no thread writes to the tensors.
struct Batch {
  torch::Tensor input;
  torch::Tensor target;

  // Number of samples; 0 for a default-constructed Batch.
  int64_t size() const { return input.defined() ? input.size(0) : 0; }

  // Returns the same samples on `device`, or this Batch if the samples are already there.
  //
  // With `non_blocking`, a copy from pinned host memory to a GPU is only queued on the current
  // stream. The host memory must then stay unchanged until the stream has executed the copy.
  Batch to(torch::Device device, bool non_blocking = false) const;

  // Returns the samples [begin, end) as views that share memory with this Batch.
  // Requires 0 <= begin <= end <= size(); throws an Error otherwise.
  Batch slice(int64_t begin, int64_t end) const;
};

}  // namespace lockstep
