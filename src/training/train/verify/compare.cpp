// SPDX-License-Identifier: Apache-2.0
#include "training/train/verify/compare.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace lockstep::train {
namespace {

// Minimum scale of a tensor, as a fraction of the largest value of the model. Avoids large relative
// differences of tensors near zero.
constexpr double kMinScale = 0.01;

// A float64 gradient below this fraction of the largest gradient of the model is zero except for
// rounding.
constexpr double kRoundingShare = 1e-12;

double largest_of(const torch::Tensor& tensor) {
  return tensor.abs().max().item<double>();
}

}  // namespace

// A gradient of exactly 0 is fine: it is 0 under every strategy. Only tiny values that differ from
// 0 are rounding errors of sums that cancel, such as a bias in front of a batch norm.
Comparable find_comparable(const std::vector<Moved>& moved,
                           const std::vector<torch::Tensor>& gradients) {
  double maximum = 0;
  for (const torch::Tensor& gradient : gradients) {
    maximum = std::max(maximum, gradient.defined() ? largest_of(gradient) : 0);
  }
  Comparable result;
  result.values.resize(moved.size());
  for (size_t i = 0; i < moved.size(); ++i) {
    if (!gradients[i].defined()) {
      continue;
    }
    const torch::Tensor rounds =
        gradients[i].gt(0).logical_and(gradients[i].le(kRoundingShare * maximum));
    const auto count = rounds.sum().item<int64_t>();
    if (count > 0) {
      result.values[i] = rounds.logical_not().to(torch::kCPU).flatten();
      result.left_out.push_back(
          fmt::format("{} ({} of {} values)", moved[i].name, count, rounds.numel()));
    }
  }
  return result;
}

// NaN counts as infinitely different; argmax returns the position of a NaN.
TrialResult compare(const std::vector<Moved>& moved,
                    const std::vector<torch::Tensor>& wanted,
                    const std::vector<torch::Tensor>& comparable) {
  double model = 0;
  for (size_t i = 0; i < moved.size(); ++i) {
    model = std::max(model, moved[i].tensor.requires_grad() ? largest_of(wanted[i]) : 0);
  }
  TrialResult result;
  for (size_t i = 0; i < moved.size(); ++i) {
    const torch::Tensor mine = moved[i].tensor.detach().to(torch::kCPU).flatten();
    const torch::Tensor theirs = wanted[i].flatten();
    torch::Tensor differences = (mine - theirs).abs();
    if (comparable[i].defined()) {
      differences = torch::where(comparable[i], differences, torch::zeros_like(differences));
    }
    const auto where = differences.argmax().item<int64_t>();
    const double scale = std::max({largest_of(theirs), kMinScale * model, 1e-300});
    double drift = differences[where].item<double>() / scale;
    drift = std::isnan(drift) ? std::numeric_limits<double>::infinity() : drift;
    if (drift > result.drift) {
      result.drift = drift;
      result.worst = fmt::format("'{}' element {} is {:.17g}, in one process {:.17g}",
                                 moved[i].name,
                                 where,
                                 mine[where].item<double>(),
                                 theirs[where].item<double>());
    }
  }
  return result;
}

// The number of collectives must not depend on what is found: every parameter is broadcast, and the
// results are gathered at the end.
std::string find_difference(const std::vector<Moved>& moved, Communicator& group) {
  int64_t mine = -1;
  for (size_t i = 0; i < moved.size() && group.size() > 1; ++i) {
    if (!moved[i].tensor.requires_grad()) {
      continue;
    }
    torch::Tensor first = moved[i].tensor.detach().clone();
    group.broadcast(first);
    if (mine < 0 && !first.equal(moved[i].tensor)) {
      mine = static_cast<int64_t>(i);
    }
  }
  const torch::Tensor all = group.all_gather(torch::full({1}, mine, torch::kInt64));
  for (int64_t rank = 0; rank < group.size(); ++rank) {
    const auto index = all[rank].item<int64_t>();
    if (index >= 0) {
      return fmt::format(
          "'{}' on rank {} differs from rank 0", moved[static_cast<size_t>(index)].name, rank);
    }
  }
  return "";
}

}  // namespace lockstep::train
