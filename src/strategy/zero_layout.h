// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <torch/torch.h>
#include <vector>

#include "lockstep/strategy.h"

namespace lockstep::strategy::zero {

// A parameter's place: elements [begin, begin + numel) of its unit.
struct Member {
  std::string name;
  torch::Tensor parameter;
  int64_t begin = 0;
};

// Parameters that are cut up, sent and gathered together, laid end to end: of one type, and all
// trained or all frozen.
struct UnitPlan {
  std::vector<Member> members;
  int64_t elements = 0;
  bool trained = true;
  bool stays_whole = true;  // false: every worker keeps its share only
  bool keeps_type = false;  // ZeroOptions::parameter_type is not for it
};

// What the units of a model are. Stages 0 to 2: packets of trained parameters, the last first, as
// backward has their gradients. Stage 3: the parameters of each module, and packets of those below
// the threshold, which stay whole. A parameter that several modules share belongs to the first.
// Parameters beside buffers of numbers keep their type, as batch norm's, which works with both.
std::vector<UnitPlan> plan_units(const torch::nn::Module& model, const ZeroOptions& options);

// Elements [begin, end) of a unit.
struct Span {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const Span&) const = default;
};

// Elements of each worker's share, with padding: any number is cut into equal shares.
int64_t share_size(int64_t elements, int workers);

// The worker's share without padding; the last ones may be short or empty.
Span share_of(int64_t elements, int workers, int rank);

// What is in both; empty, at the beginning of `b`, where nothing is.
Span intersect(Span a, Span b);

}  // namespace lockstep::strategy::zero
