// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/zero/layout.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::strategy::zero {
namespace {

// Assigns parameters to flat parameters in the order of add().
class Packer {
 public:
  // `limit`: maximum number of elements of a flat parameter; a larger parameter gets a flat
  // parameter of its own.
  Packer(std::vector<FlatParameterPlan>& flat_parameters, int64_t limit, bool stay_whole)
      : flat_parameters_(flat_parameters), limit_(limit), stay_whole_(stay_whole) {}

  void add(const std::string& name, const torch::Tensor& parameter, bool keeps_type) {
    const Kind kind(parameter.scalar_type(), parameter.requires_grad(), keeps_type);
    const auto open = open_.find(kind);
    if (open == open_.end() ||
        flat_parameters_[open->second].elements + parameter.numel() > limit_) {
      open_[kind] = flat_parameters_.size();
      flat_parameters_.push_back({.members = {},
                                  .trained = parameter.requires_grad(),
                                  .stays_whole = stay_whole_,
                                  .keeps_type = keeps_type});
    }
    FlatParameterPlan& flat = flat_parameters_[open_[kind]];
    flat.members.push_back({.name = name, .parameter = parameter, .begin = flat.elements});
    flat.elements += parameter.numel();
  }

  // The next parameter begins a new flat parameter.
  void close() { open_.clear(); }

 private:
  using Kind = std::tuple<torch::ScalarType, bool, bool>;

  std::vector<FlatParameterPlan>& flat_parameters_;
  int64_t limit_;
  bool stay_whole_;
  std::map<Kind, size_t> open_;
};

struct Named {
  std::string name;
  torch::Tensor parameter;
  bool keeps_type;
};

bool has_numbers_in_buffers(const torch::nn::Module& module) {
  const std::vector<torch::Tensor> buffers = module.buffers(/*recurse=*/false);
  return std::any_of(buffers.begin(), buffers.end(), [](const torch::Tensor& buffer) {
    return buffer.defined() && buffer.is_floating_point();
  });
}

// The parameters of each module. A shared parameter appears once, under its first name.
std::vector<std::vector<Named>> parameters_by_module(const torch::nn::Module& model) {
  std::set<const void*> seen;
  std::vector<std::vector<Named>> all;
  const auto take = [&](const std::string& prefix, const torch::nn::Module& module) {
    std::vector<Named> own;
    const bool keeps_type = has_numbers_in_buffers(module);
    for (const auto& item : module.named_parameters(/*recurse=*/false)) {
      if (seen.insert(item.value().unsafeGetTensorImpl()).second) {
        own.push_back({prefix + item.key(), item.value(), keeps_type});
      }
    }
    all.push_back(std::move(own));
  };
  take("", model);
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    take(item.key() + ".", *item.value());
  }
  return all;
}

}  // namespace

// Depends only on the model and the options, so that all workers make the same plan.
std::vector<FlatParameterPlan> plan_flat_parameters(const torch::nn::Module& model,
                                                    const ZeroOptions& options) {
  std::vector<FlatParameterPlan> flat_parameters;
  const std::vector<std::vector<Named>> modules = parameters_by_module(model);
  if (options.stage < 3) {
    Packer buckets(flat_parameters, options.bucket_elements, true);
    for (auto module = modules.rbegin(); module != modules.rend(); ++module) {
      for (auto each = module->rbegin(); each != module->rend(); ++each) {
        if (each->parameter.requires_grad()) {
          buckets.add(each->name, each->parameter, each->keeps_type);
        }
      }
    }
    return flat_parameters;
  }
  // A Packer keeps indices into its vector and not references, because both vectors grow.
  std::vector<FlatParameterPlan> small;
  Packer buckets(small, options.bucket_elements, true);
  Packer blocks(flat_parameters, std::numeric_limits<int64_t>::max(), false);
  for (const std::vector<Named>& module : modules) {
    for (const auto& [name, parameter, keeps_type] : module) {
      (parameter.numel() < options.persistence_threshold ? buckets : blocks)
          .add(name, parameter, keeps_type);
    }
    blocks.close();
  }
  std::move(small.begin(), small.end(), std::back_inserter(flat_parameters));
  return flat_parameters;
}

int64_t shard_size(int64_t elements, int workers) {
  return (elements + workers - 1) / workers;
}

// Example: 10 elements on 4 workers have shards of 3: [0, 3), [3, 6), [6, 9), [9, 10). 5 elements
// have shards of 2, the last of which is empty: [0, 2), [2, 4), [4, 5), [5, 5).
Span shard_of(int64_t elements, int workers, int rank) {
  const int64_t size = shard_size(elements, workers);
  return {.begin = std::min(elements, rank * size), .end = std::min(elements, (rank + 1) * size)};
}

Span intersect(Span a, Span b) {
  const int64_t begin = std::max(a.begin, b.begin);
  const int64_t end = std::min(a.end, b.end);
  return begin < end ? Span{begin, end} : Span{b.begin, b.begin};
}

}  // namespace lockstep::strategy::zero
