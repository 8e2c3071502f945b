// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/types.h>

namespace lockstep {

// One sample: what the model sees and what it shall say.
struct Example {
  torch::Tensor input;
  torch::Tensor target;
};

// Samples that go through the model together; the first dimension of both tensors counts them.
struct Batch {
  torch::Tensor input;
  torch::Tensor target;

  // How many samples; none in a Batch that was never filled.
  int64_t size() const { return input.defined() ? input.size(0) : 0; }

  // The same samples on `device`; this very Batch where it lies there already. With `non_blocking`
  // a copy from pinned memory to a GPU goes on while the caller does something else.
  Batch to(torch::Device device, bool non_blocking = false) const;

  // The samples from `begin` up to, not including, `end`, as views; throws an Error outside
  // 0 <= begin <= end <= size().
  Batch slice(int64_t begin, int64_t end) const;
};

}  // namespace lockstep
