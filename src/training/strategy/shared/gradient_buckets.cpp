// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/gradient_buckets.h"

#include <map>
#include <torch/utils.h>
#include <utility>

#include "training/strategy/shared/compression.h"

namespace lockstep::strategy {

GradientBuckets::GradientBuckets(const std::vector<torch::Tensor>& parameters,
                                 int64_t bucket_bytes,
                                 Compression compression)
    : compression_(compression) {
  using Kind = std::pair<torch::ScalarType, int>;  // type and device index; the CPU is -1
  std::map<Kind, size_t> open;
  for (const torch::Tensor& parameter : parameters) {
    const Kind kind{parameter.scalar_type(), parameter.device().index()};
    const auto bytes = static_cast<int64_t>(parameter.element_size());
    const auto found = open.find(kind);
    const bool fits = found != open.end() &&
                      (buckets_[found->second].values + parameter.numel()) * bytes <= bucket_bytes;
    if (!fits) {
      open[kind] = buckets_.size();
      buckets_.emplace_back();
    }
    Bucket& bucket = buckets_[open[kind]];
    bucket.parameters.push_back(parameter);
    bucket.values += parameter.numel();
  }
}

void GradientBuckets::sum(Communicator& communicator) const {
  const torch::NoGradGuard no_grad;
  // Reading flags from a GPU would synchronize with it. On a GPU the flags of all buckets are
  // therefore exchanged first, through the CPU.
  const torch::Tensor known =
      communicator.device() ? count_gradients(communicator) : torch::Tensor();
  int64_t first = 0;
  for (const Bucket& bucket : buckets_) {
    const auto count = static_cast<int64_t>(bucket.parameters.size());
    sum(communicator, bucket, known.defined() ? known.narrow(0, first, count) : known);
    first += count;
  }
}

torch::Tensor GradientBuckets::count_gradients(Communicator& communicator) const {
  std::vector<float> mine;
  for (const Bucket& bucket : buckets_) {
    for (const torch::Tensor& parameter : bucket.parameters) {
      mine.push_back(parameter.grad().defined() ? 1.0F : 0.0F);
    }
  }
  torch::Tensor counts = torch::tensor(mine);
  communicator.all_reduce(counts);
  return counts;
}

void GradientBuckets::sum(Communicator& communicator,
                          const Bucket& bucket,
                          const torch::Tensor& known) const {
  const torch::TensorOptions options = bucket.parameters.front().options().requires_grad(false);
  const auto count = static_cast<int64_t>(bucket.parameters.size());
  const int64_t flags = known.defined() ? 0 : count;
  torch::Tensor flat = torch::zeros(
      {flags + bucket.values},
      options.dtype(wire_type(compression_).value_or(bucket.parameters.front().scalar_type())));
  torch::Tensor has_gradient = torch::zeros({count}, torch::kFloat32);
  int64_t at = flags;
  for (int64_t i = 0; i < count; ++i) {
    // Sparse gradients become dense: their rows differ between workers, and a bucket needs the same
    // layout on all of them.
    const torch::Tensor& parameter = bucket.parameters[static_cast<size_t>(i)];
    torch::Tensor gradient = parameter.grad();
    if (gradient.defined()) {
      gradient = gradient.is_sparse() ? gradient.to_dense() : gradient;
      flat.narrow(0, at, parameter.numel()).copy_(gradient.reshape({-1}));
      has_gradient[i] = 1;
    }
    at += parameter.numel();
  }
  // In bf16, counts beyond 256 are rounded. Only the difference between 0 and more matters.
  flat.narrow(0, 0, flags).copy_(has_gradient.narrow(0, 0, flags));
  communicator.all_reduce(flat);
  has_gradient =
      known.defined() ? known : flat.narrow(0, 0, flags).to(torch::kCPU, torch::kFloat32);
  flat = flat.to(bucket.parameters.front().scalar_type());
  at = flags;
  for (int64_t i = 0; i < count; ++i) {
    const torch::Tensor& parameter = bucket.parameters[static_cast<size_t>(i)];
    // A view into the bucket, which lives as long as the gradients.
    parameter.mutable_grad() = has_gradient[i].item<float>() > 0
                                   ? flat.narrow(0, at, parameter.numel()).view(parameter.sizes())
                                   : torch::Tensor();
    at += parameter.numel();
  }
}

}  // namespace lockstep::strategy
