// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <vector>

#include "lockstep/strategy.h"

namespace lockstep::strategy::zero {

// A parameter of a flat parameter: elements [begin, begin + numel) of the flat parameter.
struct Member {
  std::string name;
  torch::Tensor parameter;
  int64_t begin = 0;
};

// Parameters that are partitioned, reduced and gathered together, stored end to end. They have one
// type, and all are trained or all are frozen.
struct FlatParameterPlan {
  std::vector<Member> members;
  int64_t elements = 0;
  bool trained = true;
  bool stays_whole = true;  // false: every worker keeps only its shard
  bool keeps_type = false;  // is not converted to ZeroOptions::parameter_type
};

// Divides the parameters of a model into flat parameters.
// - Stages 0 to 2: buckets of trained parameters in reverse order, in which backward produces their
//   gradients.
// - Stage 3: one flat parameter per module, type and trainability, and buckets of the parameters
//   below the threshold, which stay whole.
//
// A parameter that several modules share belongs to the first. Parameters of modules with
// floating-point buffers keep their type, such as those of batch norm, which computes with both.
std::vector<FlatParameterPlan> plan_flat_parameters(const torch::nn::Module& model,
                                                    const ZeroOptions& options);

// Elements [begin, end) of a flat parameter.
struct Span {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

// Elements of a shard, including padding. Any number of elements is divided into equal shards.
int64_t shard_size(int64_t elements, int workers);

// The shard of `rank` without padding. The last ones may be shorter or empty.
Span shard_of(int64_t elements, int workers, int rank);

// The intersection. If it is empty, it is positioned at the beginning of `b`.
Span intersect(Span a, Span b);

}  // namespace lockstep::strategy::zero
