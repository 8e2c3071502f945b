// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/gradient_packs.h"

#include <map>
#include <torch/utils.h>
#include <utility>

#include "training/strategy/shared/compression.h"

namespace lockstep::strategy {

GradientPacks::GradientPacks(const std::vector<torch::Tensor>& parameters,
                             int64_t pack_bytes,
                             Compression compression)
    : compression_(compression) {
  using Kind = std::pair<torch::ScalarType, int>;  // type and device index; the CPU is -1
  std::map<Kind, size_t> open;
  for (const torch::Tensor& parameter : parameters) {
    const Kind kind{parameter.scalar_type(), parameter.device().index()};
    const auto bytes = static_cast<int64_t>(parameter.element_size());
    const auto found = open.find(kind);
    const bool fits = found != open.end() &&
                      (packs_[found->second].values + parameter.numel()) * bytes <= pack_bytes;
    if (!fits) {
      open[kind] = packs_.size();
      packs_.emplace_back();
    }
    Pack& pack = packs_[open[kind]];
    pack.parameters.push_back(parameter);
    pack.values += parameter.numel();
  }
}

void GradientPacks::sum(Communicator& communicator) const {
  const torch::NoGradGuard no_grad;
  // Reading flags from a GPU would synchronize with it. On a GPU the flags of all packs are
  // therefore exchanged first, through the CPU.
  const torch::Tensor known =
      communicator.device() ? count_gradients(communicator) : torch::Tensor();
  int64_t first = 0;
  for (const Pack& pack : packs_) {
    const auto count = static_cast<int64_t>(pack.parameters.size());
    sum(communicator, pack, known.defined() ? known.narrow(0, first, count) : known);
    first += count;
  }
}

torch::Tensor GradientPacks::count_gradients(Communicator& communicator) const {
  std::vector<float> mine;
  for (const Pack& pack : packs_) {
    for (const torch::Tensor& parameter : pack.parameters) {
      mine.push_back(parameter.grad().defined() ? 1.0F : 0.0F);
    }
  }
  torch::Tensor counts = torch::tensor(mine);
  communicator.all_reduce(counts);
  return counts;
}

void GradientPacks::sum(Communicator& communicator,
                        const Pack& pack,
                        const torch::Tensor& known) const {
  const torch::TensorOptions options = pack.parameters.front().options().requires_grad(false);
  const auto count = static_cast<int64_t>(pack.parameters.size());
  const int64_t flags = known.defined() ? 0 : count;
  torch::Tensor flat = torch::zeros(
      {flags + pack.values},
      options.dtype(wire_type(compression_).value_or(pack.parameters.front().scalar_type())));
  torch::Tensor has_gradient = torch::zeros({count}, torch::kFloat32);
  int64_t at = flags;
  for (int64_t i = 0; i < count; ++i) {
    const torch::Tensor& parameter = pack.parameters[static_cast<size_t>(i)];
    torch::Tensor gradient = parameter.grad();
    if (gradient.defined()) {
      gradient = gradient.is_sparse() ? gradient.to_dense() : gradient;
      flat.narrow(0, at, parameter.numel()).copy_(gradient.reshape({-1}));
      has_gradient[i] = 1;
    }
    at += parameter.numel();
  }
  flat.narrow(0, 0, flags).copy_(has_gradient.narrow(0, 0, flags));
  communicator.all_reduce(flat);
  has_gradient =
      known.defined() ? known : flat.narrow(0, 0, flags).to(torch::kCPU, torch::kFloat32);
  flat = flat.to(pack.parameters.front().scalar_type());
  at = flags;
  for (int64_t i = 0; i < count; ++i) {
    const torch::Tensor& parameter = pack.parameters[static_cast<size_t>(i)];
    // A view into the pack, which lives as long as the gradients.
    parameter.mutable_grad() = has_gradient[i].item<float>() > 0
                                   ? flat.narrow(0, at, parameter.numel()).view(parameter.sizes())
                                   : torch::Tensor();
    at += parameter.numel();
  }
}

}  // namespace lockstep::strategy
