// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/horovod/adasum.h"

#include "common/base/check.h"

namespace lockstep::strategy::horovod {
namespace {

// Adasum (Maleki et al. 2021) of two gradients:
//
//   (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b
//
// Orthogonal gradients are added, parallel ones are averaged. Not associative: the tree below is
// part of the definition, and needs a power of two. In float64, because the dot product of long
// gradients would lose digits.
torch::Tensor combined(const torch::Tensor& a, const torch::Tensor& b) {
  const auto product = a.dot(b).item<double>();
  const auto share = [product](const torch::Tensor& vector) {
    const auto square = vector.dot(vector).item<double>();
    return square > 0 ? 1 - product / (2 * square) : 1.0;
  };
  return a * share(a) + b * share(b);
}

}  // namespace

torch::Tensor adasum(const torch::Tensor& a, const torch::Tensor& b) {
  return combined(a.to(torch::kFloat64), b.to(torch::kFloat64)).to(a.scalar_type());
}

torch::Tensor adasum_tree(const torch::Tensor& rows) {
  LOCKSTEP_CHECK(rows.dim() == 2 && rows.size(0) > 0 && (rows.size(0) & (rows.size(0) - 1)) == 0);
  std::vector<torch::Tensor> level;
  for (int64_t i = 0; i < rows.size(0); ++i) {
    level.push_back(rows[i].to(torch::kFloat64));
  }
  while (level.size() > 1) {
    std::vector<torch::Tensor> above;
    for (size_t i = 0; i < level.size(); i += 2) {
      above.push_back(combined(level[i], level[i + 1]));
    }
    level = std::move(above);
  }
  return level.front().to(rows.scalar_type());
}

}  // namespace lockstep::strategy::horovod
