// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/zero/memory.h"

#include <algorithm>
#include <set>

#include "lockstep/muon.h"
#include "training/strategy/zero/layout.h"

namespace lockstep::strategy::zero {
namespace {

// State values that the optimizer keeps per trained element. An unknown optimizer counts as Adam.
int64_t state_per_element(const torch::optim::Optimizer& optimizer) {
  using Sgd = torch::optim::SGDOptions;
  const auto& options = optimizer.defaults();
  if (const auto* sgd = dynamic_cast<const Sgd*>(&options)) {
    return sgd->momentum() != 0 ? 1 : 0;
  }
  if (dynamic_cast<const torch::optim::AdagradOptions*>(&options) != nullptr) {
    return 1;
  }
  const auto* adam = dynamic_cast<const torch::optim::AdamOptions*>(&options);
  const auto* adamw = dynamic_cast<const torch::optim::AdamWOptions*>(&options);
  return (adam != nullptr && adam->amsgrad()) || (adamw != nullptr && adamw->amsgrad()) ? 3 : 2;
}

// The parameters that Muon updates as matrices: one state value per element instead of two.
std::set<const void*> matrices_of_muon(const torch::optim::Optimizer& optimizer) {
  std::set<const void*> matrices;
  for (const auto& group : optimizer.param_groups()) {
    const auto* muon = dynamic_cast<const MuonOptions*>(&group.options());
    if (muon != nullptr && muon->is_matrix()) {
      for (const torch::Tensor& parameter : group.params()) {
        matrices.insert(parameter.unsafeGetTensorImpl());
      }
    }
  }
  return matrices;
}

// The part of the elements of `flat` that belongs to `parameters`, between 0 and 1.
double share_of(const std::set<const void*>& parameters, const FlatParameterPlan& flat) {
  int64_t elements = 0;
  for (const Member& member : flat.members) {
    if (parameters.contains(member.parameter.unsafeGetTensorImpl())) {
      elements += member.parameter.numel();
    }
  }
  return static_cast<double>(elements) / static_cast<double>(flat.elements);
}

int64_t bytes_of(const std::vector<torch::Tensor>& tensors) {
  std::set<const void*> seen;  // a tensor shared by two modules counts once
  int64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) {
    if (seen.insert(tensor.unsafeGetTensorImpl()).second) {
      bytes += tensor.numel() * tensor.element_size();
    }
  }
  return bytes;
}

}  // namespace

// The layout is that of plan_flat_parameters() and of the table in flat_parameter.h, so the
// estimate has padding, 16-bit copies and parameters that stay whole. Peaks: one gathered flat
// parameter at a time (the cache may keep more, up to max_live_elements) and one bucket.
MemoryNeed memory_need(const torch::nn::Module& model,
                       const torch::optim::Optimizer& optimizer,
                       const ZeroOptions& options,
                       int workers,
                       MemoryRequest ask) {
  MemoryNeed need{.buffers = bytes_of(model.buffers())};
  const int64_t state = state_per_element(optimizer);
  const std::set<const void*> matrices = matrices_of_muon(optimizer);
  int64_t largest_bucket = 0;
  int64_t largest_gathered = 0;
  int64_t placed = 0;
  for (const FlatParameterPlan& flat : plan_flat_parameters(model, options)) {
    const auto given = static_cast<int64_t>(flat.members.front().parameter.element_size());
    const bool is_short =
        given == 4 && options.parameter_type != torch::kFloat32 && !flat.keeps_type;
    const int64_t type = is_short ? 2 : given;
    const int64_t wide = std::max<int64_t>(given, 4);
    const int64_t shard = shard_size(flat.elements, workers);
    const int64_t whole = shard * workers;
    const int64_t held = options.stage == 0 ? whole : shard;
    placed += flat.elements * given;
    need.parameters += type * (flat.stays_whole ? whole : shard);
    largest_gathered = std::max(largest_gathered, flat.stays_whole ? 0 : type * whole);
    if (!flat.trained) {
      continue;
    }
    largest_bucket = std::max(largest_bucket, wide * whole);
    // Stage 1 reduces in the last micro-batch only and keeps whole gradients until then.
    need.gradients += wide * (options.stage == 1 && ask.accumulates ? whole : held);
    need.optimizer += wide * held * (state + (type < wide ? 1 : 0));
    need.optimizer -=
        static_cast<int64_t>(static_cast<double>(wide * held) * share_of(matrices, flat));
    need.averages += ask.averages ? wide * held : 0;
  }
  // Frozen parameters that do not belong to a flat parameter.
  need.parameters += std::max<int64_t>(0, bytes_of(model.parameters()) - placed);
  need.parameters += largest_gathered;
  need.gradients += largest_bucket;
  return need;
}

}  // namespace lockstep::strategy::zero
