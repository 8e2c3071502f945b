// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/zero/layout.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::strategy::zero {
namespace {

// Assigns parameters to units in the order of add().
class Packer {
 public:
  // `most`: maximum number of elements of a unit; a larger parameter gets a unit of its own.
  Packer(std::vector<UnitPlan>& units, int64_t most, bool stay_whole)
      : units_(units), most_(most), stay_whole_(stay_whole) {}

  void add(const std::string& name, const torch::Tensor& parameter, bool keeps_type) {
    const Kind kind(parameter.scalar_type(), parameter.requires_grad(), keeps_type);
    const auto open = open_.find(kind);
    if (open == open_.end() || units_[open->second].elements + parameter.numel() > most_) {
      open_[kind] = units_.size();
      units_.push_back({.members = {},
                        .trained = parameter.requires_grad(),
                        .stays_whole = stay_whole_,
                        .keeps_type = keeps_type});
    }
    UnitPlan& unit = units_[open_[kind]];
    unit.members.push_back({.name = name, .parameter = parameter, .begin = unit.elements});
    unit.elements += parameter.numel();
  }

  // The next parameter begins a new unit.
  void close() { open_.clear(); }

 private:
  using Kind = std::tuple<torch::ScalarType, bool, bool>;

  std::vector<UnitPlan>& units_;
  int64_t most_;
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

std::vector<UnitPlan> plan_units(const torch::nn::Module& model, const ZeroOptions& options) {
  std::vector<UnitPlan> units;
  const std::vector<std::vector<Named>> modules = parameters_by_module(model);
  if (options.stage < 3) {
    Packer packets(units, options.bucket_elements, true);
    for (auto module = modules.rbegin(); module != modules.rend(); ++module) {
      for (auto each = module->rbegin(); each != module->rend(); ++each) {
        if (each->parameter.requires_grad()) {
          packets.add(each->name, each->parameter, each->keeps_type);
        }
      }
    }
    return units;
  }
  std::vector<UnitPlan> small;
  Packer packets(small, options.bucket_elements, true);
  Packer blocks(units, std::numeric_limits<int64_t>::max(), false);
  for (const std::vector<Named>& module : modules) {
    for (const auto& [name, parameter, keeps_type] : module) {
      (parameter.numel() < options.persistence_threshold ? packets : blocks)
          .add(name, parameter, keeps_type);
    }
    blocks.close();
  }
  std::move(small.begin(), small.end(), std::back_inserter(units));
  return units;
}

int64_t share_size(int64_t elements, int workers) {
  return (elements + workers - 1) / workers;
}

Span share_of(int64_t elements, int workers, int rank) {
  const int64_t size = share_size(elements, workers);
  return {.begin = std::min(elements, rank * size), .end = std::min(elements, (rank + 1) * size)};
}

Span intersect(Span a, Span b) {
  const int64_t begin = std::max(a.begin, b.begin);
  const int64_t end = std::min(a.end, b.end);
  return begin < end ? Span{begin, end} : Span{b.begin, b.begin};
}

}  // namespace lockstep::strategy::zero
